//! The program as its users meet it: what it writes where, and what it says when something is wrong.
//!
//! Everything runs on the CPU reference, which is the quickest device for small pictures.

#![cfg(feature = "cli")]

mod large;

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

#[test]
fn map_writes_overlay_and_array_and_reports() {
    let folder = Folder::new("map");
    let picture = folder.picture("disc.png", 96, 64);
    let run =
        folder.map(&[&picture, "--at", "32,32", "--at", "90,5", "--out", "o.png", "--raw", "m.npy"]).done();
    assert_eq!(folder.names(), ["disc.png", "m.npy", "o.png"]);
    let overlay = image::open(folder.at("o.png")).expect("an overlay");
    assert!(overlay.width() >= 96 && overlay.height() >= 64);
    let raw = arrays::read(folder.at("m.npy")).expect("an array");
    let raw = &raw[arrays::NPY_NAME];
    assert_eq!(raw.shape, [2, 16, 24], "two queries, a token every four pixels");
    let ArrayData::F32(values) = &raw.data else { panic!("the map is {}", raw.data.dtype()) };
    for query in values.chunks(16 * 24) {
        let largest = query.iter().fold(0.0_f32, |m, x| m.max(x.abs()));
        assert_eq!(largest, 1.0, "a map is divided by its largest magnitude");
    }
    // The disc's own tokens weigh more than the background's for a click on the disc.
    assert!(values[8 * 24 + 8] > 0.5 && values[8 * 24 + 22] < 0.3, "{} {}", values[200], values[214]);
    for part in ["384 (24 × 16)", "49 landmarks", "residual", "error", "memory", "o.png", "m.npy"] {
        assert!(run.stdout.contains(part), "no {part:?} in {}", run.stdout);
    }
}

#[test]
fn json_on_stdout_is_only_json_and_notices_go_to_stderr() {
    let folder = Folder::new("json");
    let picture = folder.picture("disc.png", 96, 64);
    let run = folder.map(&[&picture, "--at", "32,32", "--json", "--max-tokens", "200"]).done();
    let json = run.json();
    assert!(json["tokens"].as_u64().expect("tokens") <= 200, "{json}");
    assert_eq!(json["path"], "nystrom");
    assert_eq!(json["landmarks"], 49);
    assert_eq!(json["lambda"].as_array().expect("per head").len(), 4);
    let mean = json["mean_kernel_value"].as_f64().expect("a number");
    assert!((0.02..0.5).contains(&mean), "λ is chosen for a mean of 0.1 over all pairs, this row has {mean}");
    assert!(json["relative_error"][0].as_f64().expect("a number") < 1.0);
    assert!(json["inverse"][0]["residual"].as_f64().expect("a number") < 1e-2);
    assert_eq!(json["out"], "disc-attention.png");
    assert!(run.stderr.contains("note: "), "a reduced picture is told: {}", run.all());
    let exact =
        folder.map(&[&picture, "--at", "32,32", "--json", "--path", "exact", "--normalise", "sum"]).done();
    assert_eq!(exact.json()["path"], "exact");
    let second = folder.picture("other.png", 96, 64);
    let many = folder.map(&[&picture, &second, "--at", "1,1", "--json", "--out", "all"]).done();
    assert_eq!(many.json().as_array().expect("a list").len(), 2);
}

#[test]
fn few_tokens_take_the_exact_path_and_say_so() {
    let folder = Folder::new("few");
    let picture = folder.picture("disc.png", 40, 36);
    let run = folder.map(&[&picture, "--at", "3,3", "--json"]).done();
    assert_eq!(run.json()["path"], "exact", "90 tokens, 49 landmarks");
    assert!(run.stderr.contains("at most twice the landmarks"), "{}", run.all());
    let run = folder.map(&[&picture, "--at", "3,3", "--json", "--path", "nystrom"]).done();
    assert_eq!(run.json()["path"], "nystrom");
}

#[test]
fn a_picture_of_one_pixel_has_a_map() {
    let folder = Folder::new("one-pixel");
    let picture = folder.picture("one.png", 1, 1);
    folder.map(&[&picture, "--at", "0,0", "--raw", "m.npy"]).done();
    assert_eq!(arrays::read(folder.at("m.npy")).expect("an array")[arrays::NPY_NAME].shape, [1, 1, 1]);
}

#[test]
fn every_frame_of_a_clip_is_mapped_with_the_features_of_the_first() {
    let folder = Folder::new("clip");
    let clip = folder.shots(&[10, 50, 10]);
    let run = folder.map(&[clip, "--at", "20,30", "--json"]).done();
    let frames = |name: &str| fs::read(folder.at(&format!("shot-attention/{name}"))).expect("a frame's map");
    let [first, second, third] = ["000000.png", "000001.png", "000002.png"].map(frames);
    assert!(first == third, "the same picture has the same map");
    assert!(first != second, "another picture has another map");
    // The first frame is mapped as a picture of its own.
    folder.map(&["in/shot00.png", "--at", "20,30", "--out", "still.png"]).done();
    let pixels = |path: String| image::open(path).expect("an overlay").into_rgb8();
    assert_eq!(pixels(folder.at("still.png")), pixels(folder.at("shot-attention/000000.png")));

    let json = run.json();
    assert_eq!((json["clip"].as_str(), json["left_out"].as_u64()), (Some("in/shot%02d.png"), Some(0)));
    let seen = json["frames"].as_array().expect("a list");
    assert_eq!(seen.iter().map(|f| f["index"].as_u64()).collect::<Vec<_>>(), [Some(0), Some(1), Some(2)]);
    let error = |value: &serde_json::Value| value.as_f64().expect("a number");
    let mut errors: Vec<f64> = seen.iter().map(|f| error(&f["relative_error"][0])).collect();
    errors.sort_by(f64::total_cmp);
    assert_eq!(error(&json["relative_error"][0]), errors[1], "the median");
    assert!(error(&json["median_seconds"]) > 0.0 && error(&seen[0]["seconds"]) > 0.0);
    let text = folder.map(&[clip, "--at", "20,30", "--frames", "1..", "--out", "part"]).done();
    assert!(
        text.stdout.contains("2 frames of 96 × 64") && text.stdout.contains("wrote      part"),
        "{}",
        text.all()
    );
    let mut names: Vec<_> = fs::read_dir(folder.at("part")).expect("the maps").flatten().collect();
    names.sort_by_key(std::fs::DirEntry::file_name);
    let names: Vec<_> = names.iter().map(|n| n.file_name().to_string_lossy().into_owned()).collect();
    assert_eq!(names, ["000001.png", "000002.png"]);
}

#[test]
fn maps_of_a_clip_are_written_as_video() {
    let folder = Folder::new("clip_video");
    let clip = folder.shots(&[10, 50]);
    folder.map(&[clip, "--at", "20,30", "--out", "maps"]).done();
    folder.map(&[clip, "--at", "20,30", "--out", "maps.y4m"]).done();
    folder.map(&[clip, "--at", "20,30", "--out", "maps.gif"]).done();
    assert_eq!(folder.names(), ["in", "maps", "maps.gif", "maps.y4m"], "nothing is left beside them");
    // Limited range and 8 bits cost a few codes; a GIF has 256 colours.
    for (name, most) in [("maps.y4m", 3.0), ("maps.gif", 8.0)] {
        let mut source = wgattn::source::open(&folder.at(name)).expect("it can be opened");
        assert_eq!(source.kind(), wgattn::source::Kind::Clip { frames: Some(2) }, "{name}");
        for index in 0..2 {
            let Ok(wgattn::source::Next::Frame(frame)) = source.next() else {
                panic!("{name} has frame {index}");
            };
            assert_eq!(frame.shown_for.map(|t| t.as_millis()), Some(40), "{name}");
            let wanted = image::open(folder.at(&format!("maps/{index:06}.png"))).expect("a map").into_rgb8();
            let got = frame.photo.display(u32::MAX).picture;
            assert_eq!(got.dimensions(), wanted.dimensions());
            let gaps = got.iter().zip(wanted.iter()).map(|(a, b)| f64::from(a.abs_diff(*b)));
            let mean = gaps.sum::<f64>() / got.len() as f64;
            assert!(mean < most, "{name}, frame {index}: {mean} codes off on average");
        }
    }
    // An animation in, an animation out.
    folder.map(&["maps.gif", "--at", "20,30", "--out", "again.gif", "--frames", "..1"]).done();
    assert!(folder.0.join("again.gif").exists());
}

#[cfg(unix)]
#[test]
fn other_videos_are_written_through_ffmpeg() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = Folder::new("clip_ffmpeg");
    let clip = folder.shots(&[10, 50]);
    fs::create_dir(folder.0.join("bin")).expect("a folder");
    let program = folder.at("bin/ffmpeg");
    let stand_in = |script: &str| {
        fs::write(&program, format!("#!/bin/sh\nfor last; do :; done\n{script}\n")).expect("a script");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("it may be run");
    };
    let path = format!("{}:/usr/bin:/bin", folder.at("bin"));
    // It is asked for its version first, and then fed.
    stand_in(r#"[ "$last" = -version ] || cat > "$last""#);
    folder.map_with_path(&path, &[clip, "--at", "20,30", "--out", "maps.mp4"]).done();
    assert_eq!(folder.names(), ["bin", "in", "maps.mp4"]);
    let source = wgattn::source::open(&folder.at("maps.mp4")).expect("what was fed to it is y4m");
    assert_eq!(source.kind(), wgattn::source::Kind::Clip { frames: Some(2) });

    fs::remove_file(folder.at("maps.mp4")).expect("it was written");
    stand_in(r#"[ "$last" = -version ] || { echo "no such encoder" >&2; exit 1; }"#);
    folder
        .map_with_path(&path, &[clip, "--at", "20,30", "--out", "maps.mp4"])
        .refused(&["maps.mp4", "no such encoder"]);
    assert_eq!(folder.names(), ["bin", "in"], "nothing is left of a failure");
}

#[test]
fn without_ffmpeg_videos_are_refused_with_what_to_install() {
    let folder = Folder::new("clip_no_ffmpeg");
    let clip = folder.shots(&[10]);
    fs::write(folder.at("clip.mp4"), b"\0\0\0\x18ftypisom\0\0\0\0").expect("a video, as it seems");
    folder.map_with_path("", &["clip.mp4", "--at", "1,1"]).refused(&["clip.mp4", "install ffmpeg", ".y4m"]);
    folder.map_with_path("", &[clip, "--at", "1,1", "--out", "o.mp4"]).refused(&["o.mp4", "install ffmpeg"]);
    assert_eq!(folder.names(), ["clip.mp4", "in"]);
}

#[test]
fn what_does_not_fit_a_clip_is_refused() {
    let folder = Folder::new("clip_refused");
    let clip = folder.shots(&[10, 50]);
    folder
        .map(&[clip, "--at", "1,1", "--out", "one.png"])
        .refused(&["one.png", "cannot hold the maps of a clip"]);
    folder.map(&[clip, "--at", "1,1", "--out", "in"]).refused(&["in", "is the input itself"]);
    folder.map(&[clip, "--at", "1,1", "--raw", "m.npy"]).refused(&["--raw", "leave it out for clips"]);
    folder.map(&[clip, "--at", "1,1", "--frames", "2.."]).refused(&["a frame from 0 to 1, got 2"]);
    folder.map(&[clip, "--at", "1,1", "--frames", "2..2"]).refused(&["--frames", "no frame lies in 2..2"]);
    folder.map(&[clip, "--at", "1,1", "--frames", "x"]).refused(&["--frames", "FROM..TO"]);
    folder.map(&[clip, "--at", "96,1"]).refused(&["(96, 1)", "0 <= x < 96"]);
    folder.map(&["in/shot00.png", "--at", "1,1", "--frames", "0..1"]).refused(&["is one picture"]);
    folder.map(&["in/no%02d.png", "--at", "1,1"]).refused(&["in/no%02d.png", "no pictures"]);
    // A picture of another size, and nothing half-written is left.
    RgbImage::new(96, 60).save(folder.at("in/shot02.png")).expect("a picture");
    folder.map(&[clip, "--at", "1,1", "--out", "o.y4m"]).refused(&["frame 2", "96x64", "96x60"]);
    // One that cannot be read is left out, and said to be.
    fs::write(folder.at("in/shot02.png"), "broken").expect("a file");
    let run = folder.map(&[clip, "--at", "20,30", "--out", "o.gif", "--json"]).done();
    assert_eq!(
        (run.json()["left_out"].as_u64(), run.json()["frames"].as_array().map(Vec::len)),
        (Some(1), Some(2))
    );
    assert!(
        run.stderr.contains("shot02.png") && run.stderr.contains("1 frame could not be read and is left out"),
        "{}",
        run.all()
    );
    assert_eq!(folder.names(), ["in", "o.gif"]);
}

#[test]
fn folders_and_patterns_give_one_result_per_picture() {
    let folder = Folder::new("folders");
    fs::create_dir(folder.0.join("in")).expect("a folder");
    folder.picture("in/a.png", 60, 60);
    folder.picture("in/b.jpg", 64, 56);
    fs::write(folder.0.join("in/notes.txt"), "no picture").expect("a text");
    folder.map(&["in", "--at", "9,9", "--out", "out", "--raw", "raw"]).done();
    assert!(folder.0.join("out/a-attention.png").exists() && folder.0.join("out/b-attention.png").exists());
    assert!(folder.0.join("raw/a.npy").exists() && folder.0.join("raw/b.npy").exists());
    folder.map(&["in/*.jpg", "--at", "9,9", "--out", "single.png"]).done();
    assert!(folder.0.join("single.png").exists());
    folder.map(&["in/*.gif", "--at", "9,9"]).refused(&["in/*.gif", "no pictures"]);
    fs::create_dir(folder.0.join("empty")).expect("a folder");
    folder.map(&["empty", "--at", "9,9"]).refused(&["empty", "no pictures"]);

    // One bad picture spoils no other, and is named; the exit code tells.
    fs::write(folder.0.join("in/c.png"), b"\x89PNG\r\n\x1a\n").expect("a stub");
    fs::remove_dir_all(folder.0.join("out")).expect("the first results");
    let run = folder.map(&["in", "--at", "9,9", "--out", "out"]);
    assert_eq!(run.code, Some(1), "{}", run.all());
    assert!(run.stderr.contains("c.png") && run.stderr.contains("1 of 3 pictures failed"), "{}", run.all());
    assert!(folder.0.join("out/a-attention.png").exists() && folder.0.join("out/b-attention.png").exists());
}

/// C30. Decoded the picture takes 324 MB; what is kept beside it is small.
#[test]
fn a_picture_of_108_megapixels_is_mapped_with_notices_and_bounded_memory() {
    let folder = Folder::new("large");
    let path = folder.at("large.png");
    large::draw(Path::new(&path));
    let args = ["map", &path, "--at", "11999,8999", "--max-tokens", "1000", "--device", "cpu", "--json"];
    let mut child = Command::new(env!("CARGO_BIN_EXE_wgattn"))
        .args(args)
        .current_dir(&folder.0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut most = 0;
    while child.try_wait().expect("the program can be asked").is_none() {
        most = most.max(memory(child.id()));
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let run = Run::of(&args, &child.wait_with_output().expect("the program ends")).done();
    assert!(run.json()["tokens"].as_u64().expect("tokens") <= 1000);
    for notice in ["note: ", "picture reduced from 12000x9000", "shown at 1:5.9"] {
        assert!(run.stderr.contains(notice), "{notice}: {}", run.all());
    }
    // Twice the picture would be 620 MiB. Elsewhere than on Linux nothing is known.
    assert!(most < 512 << 20, "{} MiB", most >> 20);
    let overlay = image::open(folder.at("large-attention.png")).expect("an overlay");
    assert!(overlay.width().max(overlay.height()) < 8192);
}

/// Most memory in bytes that a process has had; 0 where the system does not say.
fn memory(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()).unwrap_or(0) << 10
}

#[test]
fn one_file_cannot_take_the_results_of_several_pictures() {
    let folder = Folder::new("several");
    let pictures = ["a.png", "b.png"].map(|name| folder.picture(name, 48, 48));
    fs::write(folder.at("taken"), "a file").expect("a file in the way");
    let names = folder.names();
    for (flag, name) in [
        ("--out", "taken"),
        ("--out", "new.gif"),
        ("--out", "new.mp4"),
        ("--out", "new.png"),
        ("--raw", "new.npy"),
    ] {
        folder.map(&[&pictures[0], &pictures[1], "--at", "5,5", flag, name]).refused(&[
            flag,
            name,
            "names one file",
            "2 inputs",
            "name a folder",
        ]);
        assert_eq!(folder.names(), names, "{name}");
    }
    folder.map(&[&pictures[0], &pictures[1], "--at", "5,5", "--out", "taken/below"]).refused(&[
        "taken/below",
        "not a directory",
        "name a folder",
    ]);
    folder.map(&[&pictures[0], &pictures[1], "--at", "5,5", "--out", "named.like.this"]).done();
    assert!(folder.0.join("named.like.this/b-attention.png").exists());
}

/// What the system refuses is told with its name and what to do, and without the system's number.
#[cfg(target_os = "linux")]
#[test]
fn refusals_of_the_system_are_told_in_words() {
    let folder = Folder::new("refusals");
    let picture = folder.picture("a.png", 48, 48);
    let file = file_of_ones(&folder);
    // Nothing can be made in /proc, and nothing fits on /dev/full.
    let proc: [(&[&str], &str); 5] = [
        (&["map", &picture, "--at", "5,5", "--device", "cpu", "--out", "/proc/o.png"], "choose a folder"),
        (&["map", &picture, "--at", "5,5", "--device", "cpu", "--raw", "/proc/o.npy"], "check the name"),
        (
            &["map", &picture, &file, "--at", "5,5", "--device", "cpu", "--out", "/proc/o"],
            "cannot make this folder",
        ),
        (&["map", "/proc/none.png", "--at", "5,5", "--device", "cpu"], "check the path"),
        (
            &["eval", "matmul", "--inputs", "/proc/none.npz", "--out", "o.npz", "--device", "cpu"],
            "check the name",
        ),
    ];
    for (args, remedy) in proc {
        let run = folder.run(args).refused(&["/proc/", remedy]);
        assert!(!run.stderr.contains("os error"), "{}", run.all());
    }
    folder
        .run(&["bench", "probe_copy", "--csv", "none/o.csv", "--device", "cpu"])
        .refused(&["none/o.csv", "no folder"]);
    let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("the full disk");
    let mut command = Command::new(env!("CARGO_BIN_EXE_wgattn"));
    let output = command.args(["eval", "--list"]).stdout(full).output().expect("the program starts");
    let run = Run::of(&["eval", "--list"], &output);
    run.refused(&["standard output", "no space left", "make room"]);
}

/// A second input; that it is no picture comes later than what is tested with it.
#[cfg(target_os = "linux")]
fn file_of_ones(folder: &Folder) -> String {
    fs::write(folder.at("ones.png"), [1]).expect("a file");
    folder.at("ones.png")
}

#[test]
fn texts_count_and_round_as_people_do() {
    let folder = Folder::new("words");
    let picture = folder.picture("a.png", 48, 48);
    let run = folder.map(&[&picture, "--at", "5,5", "--lambda", "1e-7", "--path", "nystrom"]).done();
    assert!(run.stdout.contains("λ          1e-7 1e-7 1e-7 1e-7 per head"), "{}", run.all());
    let run = folder.map(&[&picture, "--at", "5,5", "--lambda", "1e30", "--path", "nystrom"]).done();
    assert!(run.stdout.contains("λ          1e30 1e30"), "{}", run.all());
    let one = folder.picture("one.png", 1, 1);
    let run = folder.map(&[&one, "--at", "0,0"]).done();
    assert!(run.stderr.contains("1 token is at most twice the landmarks"), "{}", run.all());
    let shot = folder.shots(&[10]);
    let run = folder.map(&[shot, "--at", "20,30", "--max-tokens", "200"]).done();
    assert!(run.stdout.contains("(1 frame of 96 × 64)"), "{}", run.all());
}

/// CRC-32 of PNG chunks.
fn crc(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0_u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |c, _| if c & 1 == 1 { c >> 1 ^ 0xedb8_8320 } else { c >> 1 })
    })
}

/// The beginning of a PNG of a given size, without any pixel.
fn png_header(width: u32, height: u32) -> Vec<u8> {
    let mut chunk = b"IHDR".to_vec();
    chunk.extend(width.to_be_bytes());
    chunk.extend(height.to_be_bytes());
    chunk.extend([8, 2, 0, 0, 0]);
    let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\x0d".to_vec();
    bytes.extend(&chunk);
    bytes.extend(crc(&chunk).to_be_bytes());
    bytes
}

#[test]
fn bad_pictures_are_refused_in_one_line_and_keep_the_old_result() {
    let folder = Folder::new("bad-pictures");
    let good = folder.picture("good.png", 64, 48);
    folder.map(&[&good, "--at", "5,5", "--out", "result.png", "--raw", "result.npy"]).done();
    let kept = [fs::read(folder.at("result.png")), fs::read(folder.at("result.npy"))].map(Result::unwrap);

    let bytes = fs::read(&good).expect("the good picture");
    let write = |name: &str, bytes: &[u8]| fs::write(folder.at(name), bytes).expect("a bad picture");
    write("truncated.png", &bytes[..bytes.len() / 2]);
    write("empty.png", b"");
    write("text.png", b"this is no picture at all, only words in a file of the wrong suffix");
    write("zero.png", &png_header(0, 10));
    write("bomb.png", &png_header(4_000_000, 4_000_000));
    write("large-claim.png", &png_header(60_000, 60_000));
    let mut names = folder.names();
    for (name, parts) in [
        ("missing.png", vec!["missing.png", "cannot read"]),
        ("truncated.png", vec!["truncated.png", "truncated"]),
        ("empty.png", vec!["empty.png"]),
        ("text.png", vec!["text.png"]),
        ("zero.png", vec!["zero.png"]),
        ("bomb.png", vec!["bomb.png"]),
        ("large-claim.png", vec!["large-claim.png"]),
    ] {
        folder.map(&[name, "--at", "5,5", "--out", "result.png", "--raw", "result.npy"]).refused(&parts);
    }
    // A suffix is only a name: what is inside decides.
    fs::copy(&good, folder.at("really-a-png.jpg")).expect("a copy");
    names.push("really-a-png.jpg".into());
    names.sort();
    folder.map(&["really-a-png.jpg", "--at", "5,5", "--out", "result.png", "--raw", "result.npy"]).done();
    assert_eq!(folder.names(), names, "nothing half-written is left");
    let now = [fs::read(folder.at("result.png")), fs::read(folder.at("result.npy"))].map(Result::unwrap);
    assert!(now == kept, "the same picture gives the same bytes, and failures touched nothing");
}

#[test]
fn bad_arguments_are_refused_in_one_line_and_keep_the_old_result() {
    let folder = Folder::new("bad-arguments");
    let good = folder.picture("good.png", 64, 48);
    // Another click than below, so that an overlay written before a failure would show.
    folder.map(&[&good, "--at", "50,40", "--out", "result.png"]).done();
    let kept = fs::read(folder.at("result.png")).expect("a result");
    fs::create_dir(folder.0.join("directory.png")).expect("a folder in the way");
    let names = folder.names();
    let cases: &[(&[&str], &[&str])] = &[
        (&["--at", "64,0"], &["(64, 0)", "x < 64"]),
        (&["--at", "0,48"], &["(0, 48)", "y < 48"]),
        (&["--at", "5,5", "--at", "4000000000,1"], &["4000000000"]),
        (&["--at", "-5,5"], &["-5", "X,Y"]),
        (&["--at", "garbage"], &["garbage", "X,Y"]),
        (&["--at", "5,"], &["X,Y"]),
        (&["--at", "5;5"], &["X,Y"]),
        (&["--at", "5,5", "--lambda", "0"], &["lambda", "> 0", "got 0"]),
        (&["--at", "5,5", "--lambda", "-1"], &["lambda", "> 0", "got -1"]),
        (&["--at", "5,5", "--lambda", "NaN"], &["lambda", "NaN"]),
        (&["--at", "5,5", "--lambda", "inf"], &["lambda", "∞"]),
        (&["--at", "5,5", "--lambda", "wide"], &["lambda", "wide"]),
        (&["--at", "5,5", "--epsilon", "0"], &["epsilon", "> 0"]),
        (&["--at", "5,5", "--path", "nystrom", "--landmarks", "strided:60"], &["landmarks", "192", "3600"]),
        (&["--at", "5,5", "--path", "nystrom", "--landmarks", "adaptive:70000"], &["landmarks", "192"]),
        (&["--at", "5,5", "--path", "nystrom", "--landmarks", "pooled:5"], &["divisor"]),
        (&["--at", "5,5", "--path", "nystrom", "--landmarks", "given:1,2,999"], &["999"]),
        (&["--at", "5,5", "--landmarks", "strided:0"], &["1 or more"]),
        (&["--at", "5,5", "--landmarks", "strided:7x9"], &["7x9", "one whole number", "strided:7"]),
        (&["--at", "5,5", "--landmarks", "7x9"], &["7x9", "no kind of landmarks", "strided:7"]),
        (&["--at", "5,5", "--landmarks", "51"], &["51", "no kind of landmarks", "segments:COUNT"]),
        (&["--at", "5,5", "--landmarks", "given:"], &["given:0,17,300"]),
        (
            &["--at", "5,5", "--path", "nystrom", "--landmarks", "strided:1000000"],
            &["192", "1000000 × 1000000 = 1000000000000", "a side of 1 to 13"],
        ),
        (&["--at", "5,5", "--lambda", "-1e30"], &["lambda", "got -1e30;"]),
        (&["--at", "5,5", "--landmarks", "sprinkled:7"], &["sprinkled", "strided"]),
        (&["--at", "5,5", "--head", "4"], &["head 4", "0 to 3"]),
        (&["--at", "5,5", "--heads", "0"], &["heads"]),
        (&["--at", "5,5", "--preset", "newest"], &["newest", "paper"]),
        (&["--at", "5,5", "--kernel", "cosine"], &["cosine"]),
        (&["--at", "5,5", "--kernel", "softmax", "--path", "nystrom"], &["softmax", "exact"]),
        (&["--at", "5,5", "--path", "exact", "--normalise", "cheap"], &["cheap", "nystrom"]),
        (&["--at", "5,5", "--path", "nystrom", "--normalise", "sum"], &["sum", "exact"]),
        (&["--at", "5,5", "--patch", "0"], &["patch", "0"]),
        (&["--at", "5,5", "--patch", "65"], &["patch", "65"]),
        (&["--at", "5,5", "--stride", "0"], &["stride", "0"]),
        (&["--at", "5,5", "--max-tokens", "0"], &["token", "0"]),
        (&["--at", "5,5", "--device", "abacus"], &["abacus", "not found"]),
        (&["--at", "5,5", "--device", "99"], &["99", "not found"]),
        (&["--at", "5,5", "--device", "cuda"], &["cuda"]),
        (&["--at", "5,5", "--out", "nowhere/result.png"], &["nowhere"]),
        (&["--at", "5,5", "--raw", "nowhere/result.npy"], &["nowhere"]),
        (&["--at", "5,5", "--raw", "result.txt"], &["result.txt", "suffix"]),
        (&["--at", "5,5", "--out", "good.png/result.png"], &["good.png"]),
        (&[], &["--at"]),
        (&["--at", "5,5", "--colour", "red"], &["--colour"]),
    ];
    for (arguments, parts) in cases {
        let given = arguments.contains(&"--device");
        let mut all = vec!["map", good.as_str()];
        all.extend_from_slice(arguments);
        if !given {
            all.extend(["--device", "cpu"]);
        }
        if !arguments.contains(&"--out") {
            all.extend(["--out", "result.png"]);
        }
        folder.run(&all).refused(parts);
        assert_eq!(folder.names(), names, "left behind by {arguments:?}");
        assert!(fs::read(folder.at("result.png")).expect("a result") == kept, "{arguments:?}");
    }
    // A folder as --out takes the picture's own name.
    folder.map(&[&good, "--at", "5,5", "--out", "directory.png"]).done();
    assert!(folder.0.join("directory.png/good-attention.png").exists());
    fs::create_dir(folder.0.join("directory.png/taken.npy")).expect("a folder in the way");
    fs::create_dir(folder.0.join("directory.png/taken.npy/good.npy")).expect("a folder in the way");
    folder
        .map(&[&good, "--at", "5,5", "--out", "result.png", "--raw", "directory.png/taken.npy"])
        .refused(&["good.npy"]);
    assert!(fs::read(folder.at("result.png")).expect("a result") == kept);
}

#[test]
fn every_kernel_is_listed_and_described() {
    let folder = Folder::new("describe");
    let list = folder.run(&["eval", "--list"]).done().stdout;
    assert_eq!(list.lines().count(), KERNELS.len());
    for kernel in KERNELS {
        assert!(list.lines().any(|l| l.split_whitespace().next() == Some(kernel.name)), "{}", kernel.name);
        let text = folder.run(&["eval", "--describe", kernel.name]).done().stdout;
        for port in kernel.ports {
            assert!(text.contains(&format!(" {} [{}]", port.name, port.dims.join(", "))), "{text}");
        }
        for field in kernel.params {
            assert!(text.contains(&format!("--param {}=", field.name)), "{text}");
        }
        assert!(text.contains(kernel.formula) && text.contains(kernel.source), "{text}");
    }
    folder.run(&["eval", "--describe", "matmull"]).refused(&["matmull", "did you mean matmul"]);
    folder.run(&["eval", "zzz", "--inputs", "x.npz", "--out", "y.npz"]).refused(&["zzz", "--list"]);
    folder.run(&["eval", "matmul"]).refused(&["--inputs", "--out"]);
    folder.run(&["eval"]).refused(&["NAME"]);
}

fn f32s(shape: &[usize], values: &[f32]) -> Array {
    Array { shape: shape.to_vec(), data: ArrayData::F32(values.to_vec()) }
}

fn file(folder: &Folder, name: &str, entries: &[(&str, Array)]) -> String {
    let map: BTreeMap<String, Array> = entries.iter().map(|(n, a)| ((*n).to_string(), a.clone())).collect();
    arrays::write(folder.at(name), &map).expect("arrays are written");
    folder.at(name)
}

fn eval(folder: &Folder, name: &str, inputs: &str, more: &[&str]) -> BTreeMap<String, Array> {
    for out in ["out.npz", "out.safetensors"] {
        let base = ["eval", name, "--inputs", inputs, "--device", "cpu", "--out", out];
        folder.run(&[&base[..], more].concat()).done();
    }
    let [npz, safetensors] =
        ["out.npz", "out.safetensors"].map(|f| arrays::read(folder.at(f)).expect("results"));
    assert_eq!(npz, safetensors);
    npz
}

#[track_caller]
fn near(array: &Array, shape: &[usize], expected: &[f64]) {
    assert_eq!(array.shape, shape);
    let values: Vec<f64> = match &array.data {
        ArrayData::F32(v) => v.iter().map(|x| f64::from(*x)).collect(),
        ArrayData::F64(v) => v.clone(),
        other => panic!("the result is {}", other.dtype()),
    };
    assert_eq!(values.len(), expected.len());
    for (got, expected) in values.iter().zip(expected) {
        assert!((got - expected).abs() <= 1e-6 * expected.abs().max(1.0), "{values:?}, expected {expected}");
    }
}

#[test]
fn eval_agrees_with_a_computation_by_hand() {
    let folder = Folder::new("eval");
    let a = f32s(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let w = f32s(&[3, 2], &[1.0, 0.0, 0.0, 1.0, 1.0, 1.0]);
    for name in ["product.npz", "product.safetensors"] {
        let inputs = file(&folder, name, &[("a", a.clone()), ("w", w.clone())]);
        near(
            &eval(&folder, "matmul", &inputs, &["--param", "alpha=2"])["out"],
            &[1, 1, 2, 2],
            &[8.0, 10.0, 20.0, 22.0],
        );
    }
    let inputs = file(&folder, "turned.npz", &[("a", a.clone()), ("w", a)]);
    near(
        &eval(&folder, "matmul", &inputs, &["--param", "transpose_w=1"])["out"],
        &[1, 1, 2, 2],
        &[14.0, 32.0, 32.0, 77.0],
    );

    let points = f32s(&[2, 2], &[0.0, 0.0, 1.0, 2.0]);
    let other = f32s(&[1, 2], &[1.0, 0.0]);
    let lambda = f32s(&[1], &[2.0]);
    let entries = [("x", points.clone()), ("y", other.clone()), ("lambda", lambda.clone())];
    let inputs = file(&folder, "kernel.safetensors", &entries);
    let l1 = [(-0.5_f64).exp(), (-1.0_f64).exp()];
    near(&eval(&folder, "kernel_matrix", &inputs, &[])["out"], &[1, 1, 2, 1], &l1);
    let l2 = [(-0.5_f64).exp(), (-2.0_f64).exp()];
    near(&eval(&folder, "kernel_matrix", &inputs, &["--param", "metric=2"])["out"], &[1, 1, 2, 1], &l2);

    // One landmark at a key: C = e^(−d/λ), X = 1/(1 + ε).
    let values = f32s(&[2, 1], &[10.0, 20.0]);
    let entries = [
        ("q", other.clone()),
        ("k", points.clone()),
        ("v", values.clone()),
        ("landmarks", f32s(&[1, 2], &[0.0, 0.0])),
        ("lambda", lambda.clone()),
    ];
    let inputs = file(&folder, "nystrom.npz", &entries);
    let out = eval(&folder, "nystrom_attention", &inputs, &["--param", "epsilon=0.25"]);
    let expected = (-0.5_f64).exp() / 1.25 * (10.0 + (-1.5_f64).exp() * 20.0);
    near(&out["out"], &[1, 1, 1, 1], &[expected]);
    assert_eq!(out["status"].shape, [1, 1, 4]);

    let entries = [("q", other), ("k", points), ("v", values), ("lambda", lambda)];
    let inputs = file(&folder, "exact.npz", &entries);
    let out = eval(&folder, "exact_attention", &inputs, &["--param", "metric=1"]);
    near(&out["out"], &[1, 1, 1, 1], &[(l1[0] * 10.0 + l1[1] * 20.0) / (l1[0] + l1[1])]);
    near(&out["log_sum"], &[1, 1, 1], &[(l1[0] + l1[1]).ln()]);
    let out = eval(&folder, "exact_attention", &inputs, &["--param", "scale=0.5"]);
    let weight = [0.0, 0.5_f64].map(f64::exp);
    near(&out["out"], &[1, 1, 1, 1], &[(weight[0] * 10.0 + weight[1] * 20.0) / (weight[0] + weight[1])]);
}

#[test]
fn bad_arrays_are_refused_in_one_line() {
    let folder = Folder::new("bad-arrays");
    let a = f32s(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let w = f32s(&[3, 2], &[1.0; 6]);
    let kept = file(&folder, "out.npz", &[("a", a.clone())]);
    let before = fs::read(&kept).expect("an older result");
    let words = Array { shape: vec![3, 2], data: ArrayData::I32(vec![1; 6]) };
    let nan = f32s(&[3, 2], &[1.0, 2.0, f32::NAN, 4.0, f32::INFINITY, 6.0]);
    file(&folder, "wrong-name.npz", &[("a", a.clone()), ("b", w.clone())]);
    file(&folder, "no-w.npz", &[("a", a.clone())]);
    file(&folder, "wrong-shape.npz", &[("a", a.clone()), ("w", a.clone())]);
    file(&folder, "wrong-rank.npz", &[("a", a.clone()), ("w", f32s(&[6], &[1.0; 6]))]);
    file(&folder, "wrong-dtype.npz", &[("a", a.clone()), ("w", words)]);
    file(&folder, "nan.npz", &[("a", a.clone()), ("w", nan)]);
    file(&folder, "good.npz", &[("a", a), ("w", w)]);
    let good = fs::read(folder.at("good.npz")).expect("arrays");
    fs::write(folder.at("truncated.npz"), &good[..good.len() / 2]).expect("half a file");
    fs::write(folder.at("text.npz"), "words").expect("a text");
    fs::write(folder.at("short.safetensors"), [9, 0, 0]).expect("three bytes");
    fs::write(folder.at("claim.safetensors"), u64::MAX.to_le_bytes()).expect("a claim");
    let names = folder.names();
    let cases: &[(&str, &[&str], &[&str])] = &[
        ("wrong-name.npz", &[], &["`b`", "a, w, residual, bias"]),
        ("no-w.npz", &[], &["`w`"]),
        ("wrong-shape.npz", &[], &["matmul"]),
        ("wrong-rank.npz", &[], &["`w`", "[6]"]),
        ("wrong-dtype.npz", &[], &["`w`", "i32"]),
        ("nan.npz", &[], &["`w`", "element 2", "2 such"]),
        ("missing.npz", &[], &["missing.npz", "cannot read"]),
        ("truncated.npz", &[], &["truncated.npz"]),
        ("text.npz", &[], &["text.npz"]),
        ("short.safetensors", &[], &["short.safetensors"]),
        ("claim.safetensors", &[], &["claim.safetensors"]),
        ("good.npz", &["--param", "beta"], &["key=value"]),
        ("good.npz", &["--param", "gamma=1"], &["gamma", "alpha, beta, identity"]),
        ("good.npz", &["--param", "alpha=much"], &["alpha=much"]),
        ("good.npz", &["--param", "transpose_a=-1"], &["transpose_a=-1"]),
        ("good.npz", &["--dim", "z=3"], &["z=3"]),
        ("good.npz", &["--device", "abacus"], &["abacus"]),
    ];
    for (inputs, more, parts) in cases {
        let mut all = vec!["eval", "matmul", "--inputs", inputs, "--out", "out.npz"];
        all.extend_from_slice(more);
        if !more.contains(&"--device") {
            all.extend(["--device", "cpu"]);
        }
        folder.run(&all).refused(parts);
        assert!(fs::read(&kept).expect("an older result") == before, "{inputs} {more:?}");
    }
    let base = ["eval", "matmul", "--inputs", "good.npz", "--device", "cpu", "--out"];
    folder.run(&[&base[..], &["nowhere/out.npz"]].concat()).refused(&["nowhere"]);
    folder.run(&[&base[..], &["out.csv"]].concat()).refused(&["out.csv", "suffix"]);
    assert_eq!(folder.names(), names, "nothing half-written is left");
    let taken = [
        "eval",
        "matmul",
        "--inputs",
        "nan.npz",
        "--device",
        "cpu",
        "--allow-nonfinite",
        "--out",
        "nan-out.npz",
    ];
    folder.run(&taken).done();

    let q = f32s(&[3, 2], &[0.5; 6]);
    let entries = [
        ("q", q.clone()),
        ("k", q.clone()),
        ("v", q.clone()),
        ("landmarks", q.clone()),
        ("lambda", f32s(&[1], &[1.0])),
    ];
    file(&folder, "attention.npz", &entries);
    let base = [
        "eval",
        "nystrom_attention",
        "--inputs",
        "attention.npz",
        "--device",
        "cpu",
        "--out",
        "x.npz",
        "--param",
    ];
    for (param, parts) in [
        ("epsilon=0", ["epsilon", "got 0"]),
        ("epsilon=NaN", ["epsilon", "NaN"]),
        ("zs=-1", ["zs", "-1"]),
        ("normalise=5", ["normalise", "5"]),
        ("metric=0", ["metric", "0"]),
    ] {
        folder.run(&[&base[..], &[param]].concat()).refused(&parts);
    }
}

#[test]
fn devices_are_listed_as_json_with_the_cpu() {
    let folder = Folder::new("devices");
    let json = folder.run(&["devices", "--json"]).done().json();
    let devices = json["devices"].as_array().expect("a list");
    let cpu = devices.last().expect("the CPU at least");
    assert_eq!((&cpu["index"], &cpu["backend"]), (&"cpu".into(), &"cpu".into()));
    for adapter in &devices[..devices.len() - 1] {
        for field in ["name", "backend", "type", "driver", "pci", "limits", "timestamps", "subgroup_sizes"] {
            assert!(adapter.get(field).is_some(), "{field} is missing in {adapter}");
        }
    }
    assert!(json["cuda"].as_str().expect("a text").contains("not built"));
    let text = folder.run(&["devices"]).done().stdout;
    assert!(text.contains("cpu  ") && text.contains("CUDA"), "{text}");
}

#[test]
fn a_closed_pipe_is_no_crash() {
    let folder = Folder::new("pipe");
    for args in [&["eval", "--list"][..], &["devices"], &["shaders"], &["--help"], &["map", "--help"]] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let output = Command::new(env!("CARGO_BIN_EXE_wgattn"))
            .args(args)
            .current_dir(&folder.0)
            .stdout(writer)
            .stderr(Stdio::piped())
            .spawn()
            .and_then(|child| child.wait_with_output())
            .expect("the program starts");
        let run = Run::of(args, &output);
        assert!(!run.stderr.contains("panicked"), "{}", run.all());
        assert!(run.code.is_some(), "ended by a signal: {}", run.all());
    }
}

#[test]
fn help_and_wrong_usage_are_told_apart() {
    let folder = Folder::new("usage");
    assert!(folder.run(&["--version"]).done().stdout.starts_with("wgattn "));
    assert!(folder.run(&["map", "--help"]).done().stdout.contains("--landmarks"));
    assert_eq!(folder.run(&["dance"]).refused(&["dance"]).code, Some(2));
    assert_eq!(folder.run(&["map"]).refused(&[]).code, Some(2));
    assert_eq!(
        folder.run(&["map", "missing.png", "--at", "1,1", "--device", "cpu"]).refused(&[]).code,
        Some(1)
    );
}

#[test]
fn an_input_is_never_overwritten_by_its_result() {
    let folder = Folder::new("own-input");
    let picture = folder.picture("self.png", 64, 48);
    let before = std::fs::read(&picture).expect("the picture reads");
    for out in [picture.clone(), folder.at("./self.png")] {
        folder.map(&[&picture, "--at", "1,1", "--out", &out]).refused(&["is the input itself"]);
    }
    assert_eq!(std::fs::read(&picture).expect("the picture reads"), before);
}

#[test]
fn pictures_whose_results_would_meet_are_refused() {
    let folder = Folder::new("meeting");
    std::fs::create_dir_all(folder.at("a")).expect("a folder");
    std::fs::create_dir_all(folder.at("b")).expect("a folder");
    let (one, two) = (folder.picture("a/m.png", 40, 40), folder.picture("b/m.png", 40, 40));
    folder.map(&[&one, &two, "--at", "1,1", "--out", "all"]).refused(&["a/m.png", "b/m.png", "both"]);
}

#[test]
fn segments_are_counted_and_decide_the_path() {
    let folder = Folder::new("segments");
    let picture = folder.picture("disc.png", 96, 64);
    let run = folder.map(&[&picture, "--at", "3,3", "--json", "--landmarks", "segments:40"]).done();
    assert_eq!((run.json()["landmarks"].as_u64(), run.json()["path"].as_str()), (Some(40), Some("nystrom")));
    let run = folder.map(&[&picture, "--at", "3,3", "--json", "--landmarks", "segments:300"]).done();
    assert_eq!(run.json()["path"], "exact", "384 tokens, 300 landmarks");
}

#[test]
fn absurd_heads_and_contradictions_are_refused() {
    let folder = Folder::new("absurd");
    let picture = folder.picture("disc.png", 64, 48);
    for heads in ["0", "65", "4294967295"] {
        folder.map(&[&picture, "--at", "1,1", "--heads", heads]).refused(&["--heads", "1 to 64"]);
    }
    folder
        .map(&[&picture, "--at", "1,1", "--kernel", "softmax", "--lambda", "3"])
        .refused(&["--lambda", "softmax"]);
    folder.run(&["shaders", "gram/nosuch"]).refused(&["gram", "nosuch", "plain"]);
}

#[test]
fn a_mask_is_painted_over_a_picture_and_over_a_bare_grid() {
    let folder = Folder::new("mask");
    let cat = folder.picture("cat.png", 160, 120);
    let run = folder
        .run(&["mask", "toeplitz:window,size=2,distance=linf", &cat, "--at", "80,60", "--raw", "m.npy"])
        .done();
    assert!(run.stdout.contains("sees         25 of 1200 keys"), "{}", run.stdout);
    assert!(image::open(folder.at("mask.png")).expect("a picture").height().is_multiple_of(120));
    assert_eq!(arrays::read(folder.at("m.npy")).expect("an array")[arrays::NPY_NAME].shape, [1, 30, 40]);
    folder
        .run(&[
            "mask", "causal", "--grid", "3x4", "--at", "1,1", "--raw", "r.npy", "--matrix", "all.npy",
            "--json",
        ])
        .done();
    let numbers = |file: &str| match &arrays::read(folder.at(file)).expect("an array")[arrays::NPY_NAME].data
    {
        ArrayData::F32(x) => x.clone(),
        other => panic!("{}", other.dtype()),
    };
    let row: Vec<f32> = (0..12).map(|t| f32::from(u8::from(t <= 5))).collect();
    assert_eq!(numbers("r.npy"), row);
    assert_eq!(numbers("all.npy")[5 * 12..6 * 12], row);
    let refused: [(&[&str], &[&str]); 7] = [
        (&["mask", "toeplitz:gaus", "--grid", "3x4", "--at", "0,0"], &["gaus", "gauss"]),
        (&["mask", "causal", "--at", "0,0"], &["picture", "--grid"]),
        (&["mask", "causal", "--grid", "3x4", "--at", "4,0"], &["4,0", "below 4"]),
        (&["mask", "causal", "--grid", "0x4", "--at", "0,0"], &["ROWSxCOLS"]),
        (&["mask", "causal", &cat, "--at", "160,0"], &["160"]),
        (&["mask", "causal", &cat, "--at", "0,0", "--out", &cat], &["input itself"]),
        (&["mask", "causal", "--grid", "200x200", "--at", "0,0", "--matrix", "big.npy"], &["40000", "--raw"]),
    ];
    for (arguments, parts) in refused {
        folder.run(arguments).refused(parts);
    }
}
