//! A store that lives as long as the program.

use parking_lot::Mutex;

use crate::{
    auth::{Credential, CredentialStore, turns::Turns},
    error::Result,
};

/// A store that lives as long as the program.
///
/// # Examples
///
/// ```
/// use steerage::auth::{Credential, CredentialStore, MemoryStore};
///
/// let store = MemoryStore::default();
/// store.write("openai", Credential::key("sk-12345678"))?;
/// assert_eq!(store.names()?, ["openai"]);
/// # Ok::<(), steerage::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct MemoryStore {
    turns: Turns,
    /// In the order in which they came.
    credentials: Mutex<Vec<(String, Credential)>>,
}

impl CredentialStore for MemoryStore {
    fn read(&self, name: &str) -> Result<Option<Credential>> {
        let credentials = self.credentials.lock();
        Ok(credentials.iter().find(|(it, _)| it == name).map(|(_, credential)| credential.clone()))
    }

    fn names(&self) -> Result<Vec<String>> {
        Ok(self.credentials.lock().iter().map(|(name, _)| name.clone()).collect())
    }

    fn modify(
        &self,
        name: &str,
        change: &mut dyn FnMut(Option<Credential>) -> Result<Option<Credential>>,
    ) -> Result<Option<Credential>> {
        let _turn = self.turns.take()?;
        let after = change(self.read(name)?)?;
        let mut credentials = self.credentials.lock();
        let place = credentials.iter().position(|(it, _)| it == name);
        match (place, after.clone()) {
            (Some(place), Some(after)) => credentials[place].1 = after,
            (Some(place), None) => drop(credentials.remove(place)),
            (None, Some(after)) => credentials.push((name.to_owned(), after)),
            (None, None) => (),
        }
        Ok(after)
    }
}
