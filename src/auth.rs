//! Keys and tokens that are kept: a store for them, and tokens that are renewed in time, once for all who wait.
//!
//! A store holds one [`Credential`] for each provider: [`MemoryStore`] and [`FileStore`] are there, and
//! [`CredentialStore`] is a small trait for others (a keyring, a database). [`Credentials`] gives out what is in a store,
//! and renews a token before it expires. [`ModelsOptions::credentials`](crate::models::ModelsOptions::credentials) takes
//! it.
//!
//! # Examples
//!
//! ```no_run
//! use steerage::{
//!     Models,
//!     auth::{Credential, CredentialStore, Credentials, FileStore, Token},
//!     models::ModelsOptions,
//! };
//!
//! let store = FileStore::new("/home/me/.config/my-game/auth.json");
//! store.write("anthropic", Credential::key("sk-ant-…"))?;
//!
//! let credentials = Credentials::new(store);
//! credentials.renew_with("gateway", |token, signal| {
//!     // Ask the login server here, with `token.refresh`; look at `signal`.
//!     Ok(Token { access: "…".into(), ..token.clone() })
//! });
//! let options = ModelsOptions { credentials: Some(credentials), ..ModelsOptions::default() };
//! let models = Models::with_options(options);
//! # Ok::<(), steerage::Error>(())
//! ```

use crate::error::Result;

mod credential;
mod file;
mod memory;
mod renewal;
mod turns;

pub use crate::auth::{
    credential::{Credential, Token},
    file::FileStore,
    memory::MemoryStore,
    renewal::{Credentials, RenewFn},
};

/// Holds one credential under each name. Used from any thread.
pub trait CredentialStore: Send + Sync {
    /// The credential of that name.
    fn read(&self, name: &str) -> Result<Option<Credential>>;

    /// The names that have one.
    fn names(&self) -> Result<Vec<String>>;

    /// Changes the credential of a name: `change` gets what is there and gives what shall be there; `None` takes it away.
    /// Returns what is there afterwards.
    ///
    /// No other change of the store happens meanwhile, by another thread or, where the store is shared by processes, by
    /// another process. An error of `change` leaves everything as it was.
    fn modify(
        &self,
        name: &str,
        change: &mut dyn FnMut(Option<Credential>) -> Result<Option<Credential>>,
    ) -> Result<Option<Credential>>;

    /// Puts a credential in place of the one of that name.
    fn write(&self, name: &str, credential: Credential) -> Result<()> {
        self.modify(name, &mut |_| Ok(Some(credential.clone()))).map(drop)
    }

    /// Takes the credential of a name away.
    fn delete(&self, name: &str) -> Result<()> {
        self.modify(name, &mut |_| Ok(None)).map(drop)
    }
}
