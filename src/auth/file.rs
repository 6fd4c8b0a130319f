//! A store in a file that only its owner may read.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU64, Ordering},
};

use serde_json::{Map, Value};

use crate::{
    auth::{Credential, CredentialStore, turns::Turns},
    error::{Error, ErrorKind, Result},
};

/// A store in a JSON file that only its owner may read (mode 600 where the system has modes).
///
/// A change replaces the file as a whole, so that a reader, or the next start after a crash, sees the old or the new one. It
/// holds a lock on a file beside it (`.lock` at the end of the name), so that processes change it one after the other.
/// Entries of a kind that this version does not know are kept.
#[derive(Debug)]
pub struct FileStore {
    path: PathBuf,
    turns: Turns,
}

impl FileStore {
    /// Makes a store of a file, which need not exist yet.
    pub fn new(path: impl Into<PathBuf>) -> FileStore {
        FileStore { path: path.into(), turns: Turns::default() }
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn load(&self) -> Result<Map<String, Value>> {
        let text = match fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Map::new()),
            Err(error) => return Err(self.failed("cannot be read", &error)),
        };
        if text.trim().is_empty() {
            return Ok(Map::new());
        }
        // What the parser says may quote a key.
        serde_json::from_str(&text).map_err(|_| {
            let path = self.path.display();
            let message = format!(
                "the credentials in {path} are no JSON object: repair the file or remove it"
            );
            Error::new(ErrorKind::Configuration, message)
        })
    }

    /// Writes all of it into a new file and puts that in place of the old one.
    fn save(&self, all: &Map<String, Value>) -> io::Result<()> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        // A link stays one.
        let target = fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone());
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let new = beside(&target, &format!(".{}-{number}.new", process::id()));
        let written = private(OpenOptions::new().write(true).create_new(true)).open(&new).and_then(
            |mut file| {
                let mut text = serde_json::to_string_pretty(all)?;
                text.push('\n');
                file.write_all(text.as_bytes())?;
                file.sync_all()
            },
        );
        let result = written.and_then(|()| fs::rename(&new, &target));
        if result.is_err() {
            let _ = fs::remove_file(&new);
        }
        result
    }

    /// Waits until no other process changes the file. The lock ends with the file that is returned.
    fn lock(&self) -> io::Result<File> {
        if let Some(folder) = self.path.parent().filter(|it| !it.as_os_str().is_empty()) {
            make_folder(folder)?;
        }
        let path = beside(&self.path, ".lock");
        let file =
            private(OpenOptions::new().write(true).create(true).truncate(false)).open(path)?;
        file.lock()?;
        Ok(file)
    }

    fn failed(&self, what: &str, error: &io::Error) -> Error {
        let message = format!("the credentials in {} {what}: {error}", self.path.display());
        Error::new(ErrorKind::Configuration, message)
    }
}

impl CredentialStore for FileStore {
    fn read(&self, name: &str) -> Result<Option<Credential>> {
        Ok(self.load()?.get(name).and_then(Credential::from_json))
    }

    fn names(&self) -> Result<Vec<String>> {
        let known = |(name, value): (String, Value)| Credential::from_json(&value).map(|_| name);
        Ok(self.load()?.into_iter().filter_map(known).collect())
    }

    fn modify(
        &self,
        name: &str,
        change: &mut dyn FnMut(Option<Credential>) -> Result<Option<Credential>>,
    ) -> Result<Option<Credential>> {
        let _turn = self.turns.take()?;
        let _lock = self.lock().map_err(|error| self.failed("cannot be locked", &error))?;
        let mut all = self.load()?;
        let before = all.get(name).cloned();
        let after = change(before.as_ref().and_then(Credential::from_json))?;
        match after.as_ref().map(Credential::to_json) {
            // Nothing has changed, so nothing is written.
            written if written == before => return Ok(after),
            Some(written) => drop(all.insert(name.to_owned(), written)),
            None => drop(all.shift_remove(name)),
        }
        self.save(&all).map_err(|error| self.failed("cannot be written", &error))?;
        Ok(after)
    }
}

/// The path with something more at the end of its name.
fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    PathBuf::from(name)
}

#[cfg(unix)]
fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    use std::os::unix::fs::OpenOptionsExt as _;
    options.mode(0o600)
}

#[cfg(not(unix))]
fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

#[cfg(unix)]
fn make_folder(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

#[cfg(not(unix))]
fn make_folder(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)
}
