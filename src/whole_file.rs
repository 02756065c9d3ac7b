//! Files as a whole: outputs that are written beside their target, then renamed, so that they are whole or absent; inputs that are read
//! whole, unless they may never end.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Lets `write` fill a new file, then puts it in the place of `target` in one step.
///
/// On any error, or a panic in `write`, what stood at `target` is untouched and nothing is left beside it. A
/// symbolic link stays one; the file it points to is replaced. The parent folder must exist.
pub(crate) fn write_whole(target: &Path, write: impl FnOnce(&File) -> io::Result<()>) -> io::Result<()> {
    let (pending, file) = Pending::beside(target)?;
    write(&file)?;
    // Windows does not rename an open file.
    drop(file);
    pending.put_in_place()
}

/// A new file beside its target; it goes away again unless it is put in the target's place.
#[derive(Debug)]
pub(crate) struct Pending {
    partial: Partial,
    target: PathBuf,
}

impl Pending {
    /// Makes the file, empty, under a name with the target's suffix.
    pub(crate) fn beside(target: &Path) -> io::Result<(Self, File)> {
        check_place(target)?;
        let target = fs::canonicalize(target).unwrap_or_else(|_| target.to_owned());
        let (partial, file) = Partial::beside(&target)?;
        Ok((Self { partial, target }, file))
    }

    /// Where it is until then.
    pub(crate) fn path(&self) -> &Path {
        &self.partial.path
    }

    /// Puts it in the target's place, in one step. It must be closed.
    pub(crate) fn put_in_place(self) -> io::Result<()> {
        fs::OpenOptions::new().write(true).open(&self.partial.path)?.sync_all()?;
        fs::rename(&self.partial.path, &self.target)
    }
}

/// Refuses what cannot become a file, before any work is done for it: a folder, a device, a file that is read-only, or one in a folder
/// that is not there or takes no new file, which only making one tells.
pub(crate) fn check_target(target: &Path) -> io::Result<()> {
    Pending::beside(target).map(drop)
}

fn check_place(target: &Path) -> io::Result<()> {
    if target.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if let Ok(found) = fs::metadata(target) {
        // A device or a pipe would not be written but replaced.
        if !found.is_file() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "it is a device or a pipe, not an ordinary file",
            ));
        }
        // A new file takes its place, which the system allows; whoever made it read-only wants to keep it.
        if found.permissions().readonly() {
            let why = "the file that is there is read-only; make it writable, or choose another name";
            return Err(io::Error::other(why));
        }
    }
    let folder = parent(target);
    match folder.is_dir() {
        true => Ok(()),
        false => {
            Err(io::Error::new(io::ErrorKind::NotFound, format!("there is no folder {}", folder.display())))
        }
    }
}

/// Opens a file to read, unless it is a device, which may never end, or a folder. Pipes end when their writers do.
pub(crate) fn open_input(path: &Path) -> io::Result<File> {
    let found = fs::metadata(path)?;
    if found.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if !found.is_file() && !is_pipe(&found) {
        let why = "it is a device, which may never end; copy what is wanted of it to a file";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    File::open(path)
}

#[cfg(unix)]
fn is_pipe(found: &fs::Metadata) -> bool {
    std::os::unix::fs::FileTypeExt::is_fifo(&found.file_type())
}

#[cfg(not(unix))]
fn is_pipe(_: &fs::Metadata) -> bool {
    false
}

/// The bytes of a file, `most` of them at most: neither a device nor a pipe without end takes all memory.
pub(crate) fn read_input(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let file = open_input(path)?;
    let large = |got: &str| {
        let why = format!("it has {got} bytes, and at most {most} are read; use a smaller file");
        io::Error::new(io::ErrorKind::InvalidData, why)
    };
    let length = file.metadata()?.len();
    if length > most {
        return Err(large(&length.to_string()));
    }
    let mut bytes = Vec::with_capacity(length as usize);
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > most {
        true => Err(large("more")),
        false => Ok(bytes),
    }
}

fn parent(target: &Path) -> &Path {
    target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Why nothing new could be made in a folder that is there: the system speaks of the new name, which the user did not choose.
pub(crate) fn unmade(what: &str, folder: &Path, error: io::Error) -> io::Error {
    let folder = folder.display();
    match error.kind() {
        // Some folders are made by the system itself.
        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied | io::ErrorKind::Unsupported => {
            io::Error::other(format!(
                "no {what} can be made in the folder {folder}; choose one that you may write in"
            ))
        }
        _ => error,
    }
}

/// A file that goes away unless it was renamed.
#[derive(Debug)]
struct Partial {
    path: PathBuf,
}

impl Partial {
    fn beside(target: &Path) -> io::Result<(Self, File)> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let folder = parent(target);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let mut name = OsString::from(format!(".partial-{}-{count}-", std::process::id()));
        name.push(target.file_name().ok_or(io::ErrorKind::InvalidInput)?);
        let path = folder.join(name);
        let file = File::create_new(&path).map_err(|e| unmade("file", folder, e))?;
        Ok((Self { path }, file))
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // After the rename there is nothing to remove; after a failure the failure itself is reported.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn folder(test: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("wgattn-whole-file-{test}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        path
    }

    #[test]
    fn a_failure_half_way_keeps_the_old_file() {
        let folder = folder("failure");
        let target = folder.join("x.png");
        fs::write(&target, "old").unwrap();
        let outcome = write_whole(&target, |mut file| {
            file.write_all(b"ne")?;
            Err(io::Error::other("disk on fire"))
        });
        assert_eq!(outcome.unwrap_err().to_string(), "disk on fire");
        assert_eq!(fs::read(&target).unwrap(), b"old");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "no partial file is left");
        write_whole(&target, |mut file| file.write_all(b"new")).unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"new");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        fs::remove_dir_all(folder).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn devices_are_not_replaced() {
        let folder = folder("device");
        let link = folder.join("null.npy");
        let _ = fs::remove_file(&link);
        std::os::unix::fs::symlink("/dev/null", &link).unwrap();
        for target in [&link, Path::new("/dev/null")] {
            let message = write_whole(target, |_| Ok(())).unwrap_err().to_string();
            assert!(message.contains("not an ordinary file"), "{message}");
        }
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
        fs::remove_dir_all(folder).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn what_may_never_end_is_not_read() {
        let folder = folder("endless");
        let link = folder.join("zero.csv");
        let _ = fs::remove_file(&link);
        std::os::unix::fs::symlink("/dev/zero", &link).unwrap();
        let message = read_input(&link, 9).unwrap_err().to_string();
        assert!(message.contains("a device") && message.contains("copy"), "{message}");
        assert_eq!(read_input(&folder, 9).unwrap_err().kind(), io::ErrorKind::IsADirectory);
        let file = folder.join("ten");
        fs::write(&file, "0123456789").unwrap();
        assert_eq!(read_input(&file, 10).unwrap(), b"0123456789");
        let message = read_input(&file, 9).unwrap_err().to_string();
        assert!(message.contains("10 bytes") && message.contains("at most 9"), "{message}");
        fs::remove_dir_all(folder).unwrap();
        // A pipe ends with its writer, and is cut off where that writes on.
        let (reader, mut writer) = io::pipe().unwrap();
        let path = PathBuf::from(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&reader)));
        if path.exists() {
            writer.write_all(b"0123456789").unwrap();
            let message = read_input(&path, 9).unwrap_err().to_string();
            assert!(message.contains("more bytes"), "{message}");
        }
    }

    #[test]
    fn what_is_read_only_is_kept() {
        let folder = folder("read-only");
        let file = folder.join("x.json");
        fs::write(&file, "mine").unwrap();
        let mut permissions = fs::metadata(&file).unwrap().permissions();
        permissions.set_readonly(true);
        fs::set_permissions(&file, permissions).unwrap();
        for outcome in [check_target(&file), write_whole(&file, |_| Ok(()))] {
            let message = outcome.unwrap_err().to_string();
            assert!(message.contains("read-only") && message.contains("another name"), "{message}");
        }
        assert_eq!(fs::read(&file).unwrap(), b"mine");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "nothing is left beside it");
        // Some systems remove no file that is read-only.
        let mut permissions = fs::metadata(&file).unwrap().permissions();
        #[expect(clippy::permissions_set_readonly_false, reason = "it is removed at once")]
        permissions.set_readonly(false);
        fs::set_permissions(&file, permissions).unwrap();
        fs::remove_dir_all(folder).unwrap();
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_folder_that_takes_no_file_is_named() {
        let message = check_target(Path::new("/proc/x.html")).unwrap_err().to_string();
        assert!(message.contains("no file can be made in the folder /proc"), "{message}");
        assert!(!message.contains("x.html"), "the name is not to blame: {message}");
    }

    #[test]
    fn a_missing_folder_is_named() {
        let target = folder("missing").join("nowhere").join("x.png");
        let message = write_whole(&target, |_| Ok(())).unwrap_err().to_string();
        assert!(message.contains("there is no folder") && message.contains("nowhere"), "{message}");
        fs::remove_dir_all(target.parent().unwrap().parent().unwrap()).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn a_symbolic_link_stays_and_its_file_is_replaced() {
        let folder = folder("link");
        fs::create_dir(folder.join("inner")).unwrap();
        let (file, link) = (folder.join("inner/x.png"), folder.join("link.png"));
        fs::write(&file, "old").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        write_whole(&link, |mut file| file.write_all(b"new")).unwrap();
        assert!(link.is_symlink());
        assert_eq!(fs::read(&file).unwrap(), b"new");
        fs::remove_dir_all(folder).unwrap();
    }
}
