//! The folder that the agent works in, and paths that stay in it.

use std::{
    fs, io,
    path::{Component, Path, PathBuf},
};

use steerage::ToolError;

/// A folder that no path leads out of: not by `..`, not by a link.
///
/// That holds for what stands there when a path is looked at. It does not hold against another program that puts a link in
/// the way in between; where that may happen, run the agent in a container.
#[derive(Debug, Clone)]
pub(crate) struct Root {
    folder: PathBuf,
}

impl Root {
    pub(crate) fn new(folder: &Path) -> io::Result<Root> {
        Ok(Root { folder: folder.canonicalize()? })
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The path of something that exists.
    pub(crate) fn existing(&self, path: &str) -> Result<PathBuf, ToolError> {
        let full = self.folder.join(plain(path)?);
        let real = full.canonicalize().map_err(|error| format!("{path}: {error}"))?;
        self.inside(real, path)
    }

    /// The path of a file that exists or may be made; folders on the way to it are made.
    pub(crate) fn writable(&self, path: &str) -> Result<PathBuf, ToolError> {
        let plain = plain(path)?;
        let name = plain.file_name().ok_or_else(|| format!("{path} names no file"))?;
        let full = self.folder.join(&plain);
        // A link counts as what it leads to, even if that does not exist yet.
        if fs::symlink_metadata(&full).is_ok() {
            return self.existing(path);
        }
        let mut folder = self.folder.clone();
        for part in plain.parent().into_iter().flat_map(Path::components) {
            folder.push(part);
            if fs::symlink_metadata(&folder).is_err() {
                fs::create_dir(&folder).map_err(|error| format!("{path}: {error}"))?;
            }
            let real = folder.canonicalize().map_err(|error| format!("{path}: {error}"))?;
            folder = self.inside(real, path)?;
        }
        Ok(folder.join(name))
    }

    /// A path as it is shown: relative to the root, with `/`.
    pub(crate) fn shown(&self, path: &Path) -> String {
        let inside = path.strip_prefix(&self.folder).unwrap_or(path);
        let parts: Vec<_> = inside.iter().map(|part| part.to_string_lossy()).collect();
        parts.join("/")
    }

    fn inside(&self, real: PathBuf, path: &str) -> Result<PathBuf, ToolError> {
        if real.starts_with(&self.folder) {
            return Ok(real);
        }
        Err(format!("{path} leads out of the folder").into())
    }
}

/// What calls on the same file name in the same way.
pub(crate) fn resource(path: &str) -> String {
    plain(path).map_or_else(|_| path.to_owned(), |path| path.to_string_lossy().into_owned())
}

/// A relative path without `.` and without `..`.
fn plain(path: &str) -> Result<PathBuf, ToolError> {
    let mut plain = PathBuf::new();
    for part in Path::new(path).components() {
        match part {
            Component::Normal(part) => plain.push(part),
            Component::CurDir => (),
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                return Err(format!("{path}: give a path below the folder, without `..`").into());
            }
        }
    }
    Ok(plain)
}
