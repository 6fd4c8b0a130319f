//! Where variables are looked up.

use std::{env, fmt};

/// Where variables are looked up. A blank value counts as none.
#[derive(Clone, Default)]
pub enum Environment {
    /// In the environment of the process, at the time of the request.
    #[default]
    Process,
    /// Nowhere.
    Empty,
    /// Among these names and values, and nowhere else.
    Of(Vec<(String, String)>),
}

impl Environment {
    /// Makes an environment of names and values.
    pub fn of<N: Into<String>, V: Into<String>>(
        variables: impl IntoIterator<Item = (N, V)>,
    ) -> Environment {
        let pair = |(name, value): (N, V)| (name.into(), value.into());
        Environment::Of(variables.into_iter().map(pair).collect())
    }

    /// The value of a variable; `own` are those of the request, which win.
    pub(super) fn get(&self, name: &str, own: &[(String, String)]) -> Option<String> {
        let among = |list: &[(String, String)]| {
            list.iter().find(|(it, value)| it == name && !is_blank(value)).map(|it| it.1.clone())
        };
        among(own).or_else(|| match self {
            Environment::Process => env::var(name).ok().filter(|value| !is_blank(value)),
            Environment::Empty => None,
            Environment::Of(list) => among(list),
        })
    }

    /// The variables that a request carries along.
    pub(super) fn carried(&self) -> &[(String, String)] {
        match self {
            Environment::Of(list) => list,
            Environment::Process | Environment::Empty => &[],
        }
    }
}

fn is_blank(value: &str) -> bool {
    value.trim().is_empty()
}

impl fmt::Debug for Environment {
    /// Shows names only: most values are keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Environment::Process => f.write_str("Process"),
            Environment::Empty => f.write_str("Empty"),
            Environment::Of(list) => {
                f.debug_list().entries(list.iter().map(|(name, _)| name)).finish()
            }
        }
    }
}
