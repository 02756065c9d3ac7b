//! Sources of pictures: what they give, in what order and when, and what they say of data that is wrong. Here is what all
//! tests of them use; they lie in a file for each kind of source, in one program, which is linked once.

mod animations;
#[path = "../large/mod.rs"]
mod large;
mod live;
mod player;
mod samples;
mod stills;
mod video;

use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::time::Duration;

use image::{DynamicImage, ImageFormat, Rgb, RgbImage};
use wgattn::source::fake::Act;
use wgattn::source::pixels::{Matrix, PixelFormat, Range, RawFrame};
use wgattn::source::{Frame, Next, Source, SourceError, open};

/// A folder of one test's own, empty at its start.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("source").join(test);
        if path.exists() {
            fs::remove_dir_all(&path).expect("what a former run left");
        }
        fs::create_dir_all(&path).expect("a folder for the test");
        Self(path)
    }

    fn at(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        let path = self.at(name);
        fs::write(&path, bytes).expect("the test's file is written");
        path
    }

    /// A picture of one colour.
    fn flat(&self, name: &str, colour: [u8; 3]) -> String {
        let path = self.at(name);
        RgbImage::from_pixel(6, 4, Rgb(colour)).save(&path).expect("the picture is written");
        path
    }
}

fn opened(what: &str) -> Box<dyn Source> {
    open(what).unwrap_or_else(|e| panic!("{what} must open: {e}"))
}

fn one_line(error: &SourceError) -> String {
    let text = error.to_string();
    assert!(!text.contains('\n'), "one line: {text}");
    text
}

fn refused(what: &str) -> String {
    match open(what) {
        Ok(source) => panic!("{what} must be refused, got {source:?}"),
        Err(error) => one_line(&error),
    }
}

/// The next frame, however long that takes.
fn frame(source: &mut dyn Source) -> Frame {
    loop {
        match source.next() {
            Ok(Next::Frame(frame)) => return frame,
            Ok(Next::Wait(time)) => std::thread::sleep(time),
            other => panic!("expected a frame, got {other:?}"),
        }
    }
}

fn failure(source: &mut dyn Source) -> String {
    match source.next() {
        Err(error) => one_line(&error),
        Ok(other) => panic!("expected an error, got {other:?}"),
    }
}

fn assert_end(source: &mut dyn Source) {
    let next = source.next();
    assert!(matches!(next, Ok(Next::End)), "expected the end, got {next:?}");
}

fn pixels(frame: &Frame) -> RgbImage {
    frame.photo.display(u32::MAX).picture
}

fn pixel(frame: &Frame, x: u32, y: u32) -> [u8; 3] {
    pixels(frame).get_pixel(x, y).0
}

fn assert_near(got: [u8; 3], wanted: [u8; 3], most: u8) {
    let near = got.iter().zip(wanted).all(|(g, w)| g.abs_diff(w) <= most);
    assert!(near, "expected {wanted:?} ± {most}, got {got:?}");
}

fn encoded(picture: impl Into<DynamicImage>, format: ImageFormat) -> Vec<u8> {
    let mut bytes = Vec::new();
    picture.into().write_to(&mut Cursor::new(&mut bytes), format).expect("test pictures can be encoded");
    bytes
}

/// A picture whose colours change slowly, so that JPEG keeps them.
fn slope(width: u32, height: u32) -> RgbImage {
    RgbImage::from_fn(width, height, |x, y| {
        Rgb([(40 + x * 150 / width) as u8, (60 + y * 120 / height) as u8, 90])
    })
}

fn raw(format: PixelFormat, width: u32, height: u32, bytes: Vec<u8>) -> RawFrame {
    RawFrame { format, width, height, stride: None, range: Range::Limited, matrix: Matrix::Bt601, bytes }
}

/// YUYV of one colour, whole pairs.
fn yuyv(width: u32, height: u32, [y, cb, cr]: [u8; 3]) -> Vec<u8> {
    [y, cb, y, cr].repeat((width.div_ceil(2) * height) as usize)
}

fn at_once(raw: RawFrame) -> Act {
    Act::Frame { raw, delay: Duration::ZERO }
}

/// Cb and Cr of half the size (or as `down` and `across` say), everything of one colour.
fn y4m(header: &str, frames: &[[u8; 3]], [y_len, c_len]: [usize; 2]) -> Vec<u8> {
    let mut file = format!("YUV4MPEG2 {header}\n").into_bytes();
    for [y, cb, cr] in frames {
        file.extend(b"FRAME\n");
        file.extend(vec![*y; y_len]);
        file.extend(vec![*cb; c_len]);
        file.extend(vec![*cr; c_len]);
    }
    file
}

/// R′G′B′ by the textbook, in f64, limited range.
fn textbook(ycc: [u8; 3], kr: f64, kb: f64) -> [u8; 3] {
    let [y, cb, cr] = ycc.map(f64::from);
    let (y, pb, pr) = ((y - 16.0) / 219.0, (cb - 128.0) / 224.0, (cr - 128.0) / 224.0);
    let (r, b) = (y + 2.0 * (1.0 - kr) * pr, y + 2.0 * (1.0 - kb) * pb);
    let g = (y - kr * r - kb * b) / (1.0 - kr - kb);
    [r, g, b].map(|c| (255.0 * c).round().clamp(0.0, 255.0) as u8)
}
