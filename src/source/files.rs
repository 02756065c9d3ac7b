//! Pictures that lie in files: one, a folder of them, and numbered ones that make a clip.

use std::path::{Path, PathBuf};

use super::{DEFAULT_FRAME_TIME, Frame, Kind, Next, Source, SourceError, file_name};
use crate::vision::image::Photo;
use crate::words::plain;

/// Suffixes of pictures that [`Photo::open`] reads.
const PICTURE_SUFFIXES: [&str; 8] = ["png", "jpg", "jpeg", "webp", "gif", "bmp", "tif", "tiff"];

/// One picture.
#[derive(Debug)]
pub(super) struct Still {
    photo: Photo,
    notices: Vec<String>,
    given: bool,
}

impl Still {
    pub(super) fn new(photo: Photo, notice: Option<String>) -> Self {
        let notices = photo.notices().iter().cloned().chain(notice).collect();
        Self { photo, notices, given: false }
    }
}

impl Source for Still {
    fn name(&self) -> String {
        file_name(Path::new(self.photo.name()))
    }

    fn kind(&self) -> Kind {
        Kind::Still
    }

    fn next(&mut self) -> Result<Next, SourceError> {
        if std::mem::replace(&mut self.given, true) {
            return Ok(Next::End);
        }
        let (photo, notices) = (self.photo.clone(), self.notices.clone());
        Ok(Next::Frame(Frame { photo, index: 0, shown_for: None, notices }))
    }

    fn go_to(&mut self, index: u64) -> Result<(), SourceError> {
        if index > 0 {
            return Err(SourceError::NoFrame { name: self.name(), index, last: 0 });
        }
        self.given = false;
        Ok(())
    }
}

/// Paths and the one whose turn it is.
#[derive(Debug)]
struct List {
    name: String,
    paths: Vec<PathBuf>,
    at: usize,
}

impl List {
    /// The next path and its number.
    fn step(&mut self) -> Option<(usize, &Path)> {
        let at = self.at;
        let path = self.paths.get(at)?;
        self.at += 1;
        Some((at, path))
    }

    fn go_to(&mut self, index: u64) -> Result<(), SourceError> {
        match usize::try_from(index) {
            Ok(at) if at < self.paths.len() => self.at = at,
            _ => {
                let last = (self.paths.len() as u64).saturating_sub(1);
                return Err(SourceError::NoFrame { name: self.name.clone(), index, last });
            }
        }
        Ok(())
    }
}

/// The pictures of a folder, by name, numbers in names by value: `2.png` comes before `10.png`.
#[derive(Debug)]
pub(super) struct Folder(List);

impl Folder {
    pub(super) fn open(folder: &Path) -> Result<Self, SourceError> {
        let what = folder.display().to_string();
        let mut paths = entries(folder)?;
        paths.retain(|path| {
            let suffix = path.extension().map(|s| s.to_string_lossy().to_lowercase());
            suffix.is_some_and(|s| PICTURE_SUFFIXES.contains(&s.as_str())) && path.is_file()
        });
        if paths.is_empty() {
            return Err(SourceError::NoPictures { what });
        }
        alphanumeric_sort::sort_path_slice(&mut paths);
        Ok(Self(List { name: file_name(folder), paths, at: 0 }))
    }
}

impl Source for Folder {
    fn name(&self) -> String {
        self.0.name.clone()
    }

    fn kind(&self) -> Kind {
        Kind::Folder { count: self.0.paths.len() as u64 }
    }

    fn next(&mut self) -> Result<Next, SourceError> {
        let Some((index, path)) = self.0.step() else {
            return Ok(Next::End);
        };
        let photo = Photo::open(path)?;
        let notices = photo.notices().to_vec();
        Ok(Next::Frame(Frame { photo, index: index as u64, shown_for: None, notices }))
    }

    fn go_to(&mut self, index: u64) -> Result<(), SourceError> {
        self.0.go_to(index)
    }
}

/// Numbered pictures, 25 a second. Where numbers are missing the picture after the gap says so.
#[derive(Debug)]
pub(super) struct Sequence {
    list: List,
    /// The numbers in the names, for `%d` patterns.
    numbers: Vec<u64>,
    faults: u64,
}

impl Sequence {
    /// The files of `name%04d.png`, or of a pattern with `*`, `?` or `[`; `None` if `pattern` is neither.
    pub(super) fn open(pattern: &str) -> Result<Option<Self>, SourceError> {
        if let Some(numbered) = Self::numbered(pattern)? {
            return Ok(Some(numbered));
        }
        if !pattern.contains(['*', '?', '[']) {
            return Ok(None);
        }
        let found = glob::glob(pattern).map_err(|e| SourceError::Argument {
            what: pattern.to_owned(),
            expected: format!("a pattern such as shots/*.png: {e}"),
        })?;
        let mut paths: Vec<PathBuf> = found.filter_map(Result::ok).filter(|p| p.is_file()).collect();
        alphanumeric_sort::sort_path_slice(&mut paths);
        Self::of(pattern, paths, Vec::new()).map(Some)
    }

    /// The files of `name%04d.png`; `None` if `pattern` is no such name.
    pub(super) fn numbered(pattern: &str) -> Result<Option<Self>, SourceError> {
        let Some(numbered) = Numbered::parse(pattern) else {
            return Ok(None);
        };
        let mut found: Vec<(u64, PathBuf)> = entries(&numbered.folder)?
            .into_iter()
            .filter_map(|path| Some((numbered.number(&path)?, path)))
            .collect();
        found.sort();
        let (numbers, paths) = found.into_iter().unzip();
        Self::of(pattern, paths, numbers).map(Some)
    }

    fn of(pattern: &str, paths: Vec<PathBuf>, numbers: Vec<u64>) -> Result<Self, SourceError> {
        if paths.is_empty() {
            return Err(SourceError::NoPictures { what: pattern.to_owned() });
        }
        let list = List { name: file_name(Path::new(pattern)), paths, at: 0 };
        Ok(Self { list, numbers, faults: 0 })
    }

    /// "numbers 3 to 6 are missing" before picture `index`.
    fn gap(&self, index: usize) -> Option<String> {
        let (before, here) = (*self.numbers.get(index.checked_sub(1)?)?, *self.numbers.get(index)?);
        match here.saturating_sub(before) {
            0 | 1 => None,
            2 => Some(format!("{}: number {} is missing", self.list.name, here - 1)),
            _ => Some(format!("{}: numbers {} to {} are missing", self.list.name, before + 1, here - 1)),
        }
    }
}

impl Source for Sequence {
    fn name(&self) -> String {
        self.list.name.clone()
    }

    fn kind(&self) -> Kind {
        Kind::Clip { frames: Some(self.list.paths.len() as u64) }
    }

    fn next(&mut self) -> Result<Next, SourceError> {
        let Some((index, path)) = self.list.step() else {
            return Ok(Next::End);
        };
        let photo = Photo::open(path).inspect_err(|_| self.faults += 1)?;
        let notices = photo.notices().iter().cloned().chain(self.gap(index)).collect();
        Ok(Next::Frame(Frame { photo, index: index as u64, shown_for: Some(DEFAULT_FRAME_TIME), notices }))
    }

    fn go_to(&mut self, index: u64) -> Result<(), SourceError> {
        self.list.go_to(index)
    }

    fn faults(&self) -> u64 {
        self.faults
    }
}

/// A name with a number in it, `folder/name%04d.png`: digits filled with zeros up to a width, more digits if it takes them.
struct Numbered {
    folder: PathBuf,
    before: String,
    width: usize,
    after: String,
}

impl Numbered {
    fn parse(pattern: &str) -> Option<Self> {
        let path = Path::new(pattern);
        let name = path.file_name()?.to_str()?;
        let (before, rest) = name.split_once('%')?;
        let (digits, after) = rest.split_once('d')?;
        let width = match digits {
            "" => 1,
            digits if digits.bytes().all(|b| b.is_ascii_digit()) => digits.parse().ok()?,
            _ => return None,
        };
        let folder = match path.parent() {
            Some(folder) if folder.as_os_str().is_empty() => PathBuf::from("."),
            folder => folder?.to_path_buf(),
        };
        Some(Self { folder, before: before.to_owned(), width, after: after.to_owned() })
    }

    fn number(&self, path: &Path) -> Option<u64> {
        let digits =
            path.file_name()?.to_str()?.strip_prefix(&self.before)?.strip_suffix(&self.after).filter(
                |d| {
                    let filled = d.len() == self.width || (d.len() > self.width && !d.starts_with('0'));
                    filled && d.bytes().all(|b| b.is_ascii_digit())
                },
            )?;
        digits.parse().ok()
    }
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, SourceError> {
    let refused = |e: std::io::Error| SourceError::Read {
        what: format!("folder {}", folder.display()),
        reason: plain(e),
        remedy: "check the path and its permissions",
    };
    std::fs::read_dir(folder)
        .and_then(|entries| entries.map(|e| e.map(|e| e.path())).collect())
        .map_err(refused)
}
