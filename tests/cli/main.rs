//! The program as its users meet it: what it writes where, and what it says when something is wrong.
//!
//! Everything runs on the CPU reference, which is the quickest device for small pictures. Here is what all tests of the command
//! line use; they lie in a file for each subject, in one program, which is linked once.

#![cfg(feature = "cli")]

mod clips;
mod eval_masks;
mod graph;
mod graph_input;
mod graphs;
mod kernels;
#[path = "../large/mod.rs"]
mod large;
mod masks;
mod pictures;
mod positions;
mod words;

use image::{Rgb, RgbImage};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use wgattn::arrays::{self, Array, ArrayData};
use wgattn::kernels::KERNELS;

/// A folder of one test's own, empty at its start.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cli").join(test);
        if path.exists() {
            fs::remove_dir_all(&path).expect("what a former run left");
        }
        fs::create_dir_all(&path).expect("a folder for the test");
        Self(path)
    }

    fn at(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    /// A small picture: a red disc on a blue slope.
    fn picture(&self, name: &str, width: u32, height: u32) -> String {
        let path = self.at(name);
        RgbImage::from_fn(width, height, |x, y| {
            let (dx, dy) = (f64::from(x) - f64::from(width) / 3.0, f64::from(y) - f64::from(height) / 2.0);
            let inside = dx * dx + dy * dy < f64::from(width.min(height)).powi(2) / 16.0;
            if inside { Rgb([210, 40, 30]) } else { Rgb([20, 60, (90 + x * 100 / width) as u8]) }
        })
        .save(&path)
        .expect("the picture is written");
        path
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).expect("the test's folder");
        let mut names: Vec<String> =
            entries.map(|e| e.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    fn run(&self, args: &[&str]) -> Run {
        let output = Command::new(env!("CARGO_BIN_EXE_wgattn"))
            .args(args)
            .current_dir(&self.0)
            .stdin(Stdio::null())
            .output()
            .expect("the program starts");
        Run::of(args, &output)
    }

    fn map(&self, args: &[&str]) -> Run {
        self.run(&[&["map", "--device", "cpu"], args].concat())
    }

    /// As [`Folder::map`], with programs looked for in `path` alone.
    fn map_with_path(&self, path: &str, args: &[&str]) -> Run {
        let args = [&["map", "--device", "cpu"], args].concat();
        let mut command = Command::new(env!("CARGO_BIN_EXE_wgattn"));
        command.args(&args).env("PATH", path).current_dir(&self.0).stdin(Stdio::null());
        Run::of(&args, &command.output().expect("the program starts"))
    }

    /// Numbered pictures `in/shot00.png` and so on: a red square that is at these columns.
    fn shots(&self, columns: &[u32]) -> &'static str {
        fs::create_dir_all(self.0.join("in")).expect("a folder");
        for (number, left) in columns.iter().enumerate() {
            let inside = |x: u32, y: u32| (*left..left + 24).contains(&x) && (20..44).contains(&y);
            RgbImage::from_fn(96, 64, |x, y| {
                if inside(x, y) { Rgb([210, 40, 30]) } else { Rgb([20, 60, (90 + x) as u8]) }
            })
            .save(self.at(&format!("in/shot{number:02}.png")))
            .expect("the picture is written");
        }
        "in/shot%02d.png"
    }
}

/// What the program said.
struct Run {
    args: String,
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Run {
    fn of(args: &[&str], output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("the program writes UTF-8");
        Self {
            args: args.join(" "),
            code: output.status.code(),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
        }
    }

    fn all(&self) -> String {
        format!("wgattn {}\n{:?}\n{}\n{}", self.args, self.code, self.stdout, self.stderr)
    }

    #[track_caller]
    fn done(self) -> Self {
        assert_eq!(self.code, Some(0), "{}", self.all());
        assert!(!self.stderr.contains("error:"), "{}", self.all());
        self
    }

    /// Failed as promised: an exit code, exactly one line that says what is wrong, no trace of the program's inside.
    #[track_caller]
    fn refused(self, parts: &[&str]) -> Self {
        assert!(matches!(self.code, Some(1 | 2)), "{}", self.all());
        let lines: Vec<&str> = self.stderr.lines().filter(|l| l.starts_with("error:")).collect();
        assert_eq!(lines.len(), 1, "{}", self.all());
        for part in parts {
            assert!(lines[0].contains(part), "no {part:?} in: {}", lines[0]);
        }
        for inside in ["panicked", "backtrace", "src/", "stack"] {
            assert!(!self.stderr.contains(inside), "{inside}: {}", self.all());
        }
        assert!(self.stdout.is_empty(), "{}", self.all());
        self
    }

    fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("{e}: {}", self.all()))
    }
}
