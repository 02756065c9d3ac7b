//! Output folders that are whole or absent: filled beside the target, then renamed.

use crate::whole_file::unmade;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Refuses a target that holds something or cannot become a folder, before any work is done for it.
///
/// Errors: a file of that name, a folder that is not empty, a parent that is not there or takes no new folder.
pub fn check_folder(target: &Path) -> io::Result<()> {
    PendingFolder::beside(target).map(drop)
}

fn check_place(target: &Path) -> io::Result<()> {
    if target.is_dir() {
        return match fs::read_dir(target)?.next() {
            None => Ok(()),
            Some(_) => Err(io::Error::new(
                io::ErrorKind::DirectoryNotEmpty,
                "the folder is not empty; name a new one, or empty it first",
            )),
        };
    }
    if fs::symlink_metadata(target).is_ok() {
        return Err(io::Error::new(
            io::ErrorKind::NotADirectory,
            "there is a file of that name; name a new folder",
        ));
    }
    let parent = parent(target);
    match parent.is_dir() {
        true => Ok(()),
        false => Err(io::Error::new(
            io::ErrorKind::NotFound,
            format!("there is no folder {}; make it first", parent.display()),
        )),
    }
}

fn parent(target: &Path) -> &Path {
    target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A new folder beside its target; it goes away again unless it is put in the target's place.
#[derive(Debug)]
pub(super) struct PendingFolder {
    partial: PathBuf,
    target: PathBuf,
}

impl PendingFolder {
    /// Makes the folder, empty.
    pub(super) fn beside(target: &Path) -> io::Result<Self> {
        check_place(target)?;
        let target = fs::canonicalize(target).unwrap_or_else(|_| target.to_owned());
        let mut name = OsString::from(format!(".partial-{}-", std::process::id()));
        name.push(target.file_name().ok_or(io::ErrorKind::InvalidInput)?);
        let partial = parent(&target).join(name);
        fs::create_dir(&partial).map_err(|e| unmade("folder", parent(&target), e))?;
        Ok(Self { partial, target })
    }

    /// Writes a file in it; folders in between are made.
    pub(super) fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let path = self.partial.join(name);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(path, bytes)
    }

    /// Puts it in the target's place, in one step.
    pub(super) fn put_in_place(self) -> io::Result<()> {
        if self.target.is_dir() {
            // It is empty; what came into it since makes this fail. Windows renames over no folder.
            fs::remove_dir(&self.target)?;
        }
        fs::rename(&self.partial, &self.target)
    }
}

impl Drop for PendingFolder {
    fn drop(&mut self) {
        // After the rename there is nothing to remove; after a failure the failure itself is reported.
        let _ = fs::remove_dir_all(&self.partial);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(test: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("wgattn-folder-{test}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        path
    }

    #[test]
    fn a_folder_appears_whole_or_not_at_all() {
        let home = folder("whole");
        let target = home.join("dump");
        let pending = PendingFolder::beside(&target).unwrap();
        pending.write("a/b.txt", b"b").unwrap();
        assert!(!target.exists(), "nothing is there before the end");
        drop(pending);
        assert_eq!(fs::read_dir(&home).unwrap().count(), 0, "what was begun goes away");
        fs::create_dir(&target).unwrap();
        let pending = PendingFolder::beside(&target).unwrap();
        pending.write("a/b.txt", b"b").unwrap();
        pending.put_in_place().unwrap();
        assert_eq!(fs::read(target.join("a/b.txt")).unwrap(), b"b");
        assert_eq!(fs::read_dir(&home).unwrap().count(), 1);
        fs::remove_dir_all(home).unwrap();
    }

    #[test]
    fn what_is_there_is_never_lost() {
        let home = folder("kept");
        let (full, file) = (home.join("full"), home.join("file"));
        fs::create_dir(&full).unwrap();
        fs::write(full.join("mine"), "mine").unwrap();
        fs::write(&file, "mine").unwrap();
        let said = |path: &Path| PendingFolder::beside(path).unwrap_err().to_string();
        assert!(said(&full).contains("not empty"), "{}", said(&full));
        assert!(said(&file).contains("file of that name"), "{}", said(&file));
        assert!(said(&home.join("no/where")).contains("there is no folder"));
        assert_eq!(fs::read(full.join("mine")).unwrap(), b"mine");
        fs::remove_dir_all(home).unwrap();
    }
}
