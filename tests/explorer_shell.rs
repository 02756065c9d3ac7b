//! What is around the views and needs no window: the list of actions, commands, sessions, exports, the probe, and arrays
//! of the user's own model.

mod explorer_support;

use eframe::egui::{Color32, ColorImage, Key, KeyboardShortcut, Modifiers};
use explorer_support::snapshot;
use glam::UVec2;
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use wgattn::arrays::{self, Array, ArrayData};
use wgattn::explorer::actions::{ACTIONS, MENUS};
use wgattn::explorer::arrays_source::{ArrayChoice, ModelError, from_arrays, open};
use wgattn::explorer::command::{drawn_otherwise, map_command};
use wgattn::explorer::document::Document;
use wgattn::explorer::export::{self, ExportError};
use wgattn::explorer::probe::describe;
use wgattn::explorer::session::{self, Session, SessionError, Theme};
use wgattn::explorer::settings::{Fusion, Look, RowForm, Similarity};
use wgattn::vision::grid::TokenGrid;

/// An empty folder that goes away with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("wgattn-shell-{test}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn files(&self) -> usize {
        fs::read_dir(&self.0).expect("the folder").count()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

// Actions

#[test]
fn no_key_does_two_things_and_no_name_stands_twice() {
    let mut keys: HashMap<KeyboardShortcut, &str> = HashMap::new();
    let mut names: HashMap<&str, ()> = HashMap::new();
    for info in ACTIONS {
        for key in info.keys {
            if let Some(other) = keys.insert(*key, info.name) {
                panic!("{key:?} is both {other} and {}", info.name);
            }
        }
        assert!(names.insert(info.name, ()).is_none(), "{}", info.name);
        let same = ACTIONS.iter().filter(|other| other.action == info.action).count();
        assert_eq!(same, 1, "{:?}", info.action);
    }
}

#[test]
fn every_action_has_a_menu_and_a_sentence() {
    for info in ACTIONS {
        assert!(info.menu.first().is_some_and(|menu| MENUS.contains(menu)), "{}: {:?}", info.name, info.menu);
        assert!(info.hover.ends_with('.') && !info.hover.contains('!'), "{}: {}", info.name, info.hover);
        let first = info.name.chars().next().expect("a name");
        assert!(first.is_uppercase() || first.is_numeric(), "{}", info.name);
    }
}

#[test]
fn the_keys_that_people_know_are_there() {
    let ctrl = Modifiers::COMMAND;
    for (modifiers, key, name) in [
        (ctrl, Key::O, "Open file…"),
        (ctrl, Key::V, "Paste image"),
        (ctrl, Key::S, "Save view as PNG…"),
        (ctrl, Key::Z, "Undo"),
        (ctrl, Key::Y, "Redo"),
        (ctrl, Key::Num0, "Actual size"),
        (Modifiers::NONE, Key::F, "Fit"),
        (Modifiers::NONE, Key::N, "Fit colour range"),
        (Modifiers::NONE, Key::R, "Reset settings"),
        (Modifiers::NONE, Key::Space, "Play or pause"),
        (Modifiers::NONE, Key::Tab, "Next layer"),
        (Modifiers::NONE, Key::M, "Next colour map"),
        (Modifiers::NONE, Key::G, "Flag bad numbers"),
        (Modifiers::NONE, Key::B, "Hide panels"),
        (Modifiers::NONE, Key::I, "Adapter and picture"),
        (Modifiers::NONE, Key::Questionmark, "Keys and mouse"),
        (Modifiers::NONE, Key::F5, "Reload"),
        (Modifiers::NONE, Key::F11, "Full screen"),
    ] {
        let shortcut = KeyboardShortcut::new(modifiers, key);
        let found = ACTIONS.iter().find(|info| info.keys.contains(&shortcut)).map(|info| info.name);
        assert_eq!(found, Some(name), "{shortcut:?}");
    }
}

// The map command

#[cfg(unix)]
#[test]
fn the_shell_takes_a_name_apart_as_it_was_meant() {
    for name in [
        "cat.png",
        "my cat.png",
        "it's.png",
        "a\nb.png",
        "$HOME/`x`.png",
        "ü*?[1].png",
        "a;b&c|d.png",
        "-v.png",
    ] {
        let command = map_command(&Document::default(), name).expect("it can be said");
        let rest = command.strip_prefix("wgattn map ").expect("it begins so");
        let out =
            Command::new("sh").arg("-c").arg(format!("printf '%s\\0' {rest}")).output().expect("a shell");
        let text = String::from_utf8(out.stdout).expect("text");
        let words: Vec<&str> = text.split_terminator('\0').collect();
        let file = if name.starts_with('-') { format!("./{name}") } else { name.to_string() };
        assert_eq!(words, [file.as_str(), "--at", "0,0", "--stride", "8"], "{command}");
    }
}

#[cfg(unix)]
#[test]
fn the_command_runs() {
    let folder = Folder::new("command");
    let picture = folder.join("a b.png");
    image::RgbImage::from_fn(32, 24, |x, y| image::Rgb([x as u8 * 8, y as u8 * 10, 90]))
        .save(&picture)
        .expect("saved");
    let mut document = Document { query: [9, 7], ..Document::default() };
    document.settings.compute.landmark_side = 2;
    document.settings.compute.form = RowForm::Row;
    document.settings.compute.lambda = Some(6.5);
    document.settings.compute.stride = 4;
    document.settings.look.fusion = Fusion::Head(1);
    document.settings.device = wgattn::explorer::settings::Device::Named("cpu".into());
    let command = map_command(&document, &picture.display().to_string()).expect("it can be said");
    let program = Path::new(env!("CARGO_BIN_EXE_wgattn")).parent().expect("a folder");
    let path = format!("{}:{}", program.display(), std::env::var("PATH").expect("a path"));
    let out = Command::new("sh")
        .args(["-c", &command])
        .env("PATH", path)
        .current_dir(&folder.0)
        .output()
        .expect("a shell");
    assert!(out.status.success(), "{command}\n{}", String::from_utf8_lossy(&out.stderr));
    assert!(folder.join("a b-attention.png").exists());
}

#[test]
fn what_the_command_cannot_say_is_said() {
    let mut document = Document::default();
    document.settings.look.fusion = Fusion::Max;
    assert!(map_command(&document, "a.png").expect_err("no maximum").contains("mean"));
    document.settings.look.fusion = Fusion::Head(9);
    assert!(map_command(&document, "a.png").expect_err("no head").contains("there are 4 heads"));
    let look = Look { log: true, hide_sinks: true, ..Look::default() };
    assert_eq!(drawn_otherwise(&look), ["logarithm", "hidden sinks"]);
    assert!(drawn_otherwise(&Look::default()).is_empty());
}

// Sessions

fn a_session() -> Session {
    let mut session = Session::default();
    session.document.query = [12, 34];
    session.document.settings.compute.similarity = Similarity::Gaussian;
    session.document.settings.compute.lambda = Some(0.1);
    session.document.settings.look.fusion = Fusion::Head(2);
    session.source = Some("photos/a cat.png".into());
    session.open_views = vec!["attention".into(), "schedule".into()];
    session.theme = Theme::Light;
    session.hidden_panels = true;
    session
}

#[test]
fn a_session_comes_back_as_it_was() {
    let folder = Folder::new("session");
    let path = folder.join("inner/s.json");
    let session = a_session();
    session.save_last(&path).expect("saved, its folder made");
    assert_eq!(Session::load(&path).expect("loaded"), session);
    assert_eq!(Session::load_last(&path).expect("loaded"), Some(session.clone()));
    // Again over the old one, and nothing else is left there.
    session.save_last(&path).expect("saved again");
    assert_eq!(fs::read_dir(folder.join("inner")).expect("the folder").count(), 1);
    assert_eq!(Session::load_last(&folder.join("none.json")).expect("no error"), None);
}

#[test]
fn unknown_fields_are_passed_over_and_missing_ones_take_defaults() {
    let folder = Folder::new("fields");
    let path = folder.join("s.json");
    let text = r#"{ "version": 1, "telescope": [1, 2], "document": { "query": [3, 4], "settings": { "compute": { "heads": 2, "warp": true } } } }"#;
    fs::write(&path, text).expect("written");
    let session = Session::load(&path).expect("loaded");
    assert_eq!(session.document.query, [3, 4]);
    assert_eq!(session.document.settings.compute.heads, 2);
    assert_eq!(session.document.settings.compute.patch, Document::default().settings.compute.patch);
}

#[test]
fn a_newer_session_is_neither_read_nor_replaced() {
    let folder = Folder::new("newer");
    let path = folder.join("s.json");
    let text = r#"{ "version": 7, "document": "in some new way" }"#;
    fs::write(&path, text).expect("written");
    let error = Session::load_last(&path).expect_err("newer");
    assert!(matches!(error, SessionError::Newer { found: 7, .. }), "{error}");
    assert!(
        error.to_string().contains("version 7") && error.to_string().contains("update wgattn"),
        "{error}"
    );
    let error = a_session().save_last(&path).expect_err("not replaced");
    assert!(matches!(error, SessionError::Newer { found: 7, .. }), "{error}");
    assert_eq!(fs::read_to_string(&path).expect("there"), text);
}

#[test]
fn a_damaged_session_is_kept_aside() {
    let folder = Folder::new("damaged");
    let path = folder.join("s.json");
    for (i, text) in [
        "{ \"version\": 1, \"document\": ",
        "[1, 2]",
        "{}",
        "\u{0}\u{1}",
        "{\"version\": 1, \"open_views\": 3}",
    ]
    .into_iter()
    .enumerate()
    {
        fs::write(&path, text).expect("written");
        let error = Session::load_last(&path).expect_err("damaged");
        let SessionError::Damaged { kept: Some(kept), .. } = &error else { panic!("{error}") };
        assert_eq!(fs::read_to_string(kept).expect("kept"), text);
        assert!(!path.exists() && error.to_string().contains("it was kept as"), "{error}");
        assert_eq!(folder.files(), i + 1);
    }
    a_session().save_last(&path).expect("there is room for a new one");
    // One that was named by hand stays where it is.
    fs::write(&path, "{").expect("written");
    assert!(Session::load(&path).is_err() && path.exists());
}

/// Numbers that nothing can be computed with are told when the file is opened, by the field's name and what it may be.
#[test]
fn a_session_with_an_impossible_number_is_refused_by_name() {
    let folder = Folder::new("numbers");
    let path = folder.join("s.json");
    let cases = [
        ("compute", "lambda", "0", "a finite number above 0, or null"),
        ("compute", "lambda", "-2.5", "a finite number above 0"),
        ("compute", "lambda", "1e39", "a finite number above 0"),
        ("compute", "lambda", "1e-60", "a finite number above 0"),
        ("compute", "epsilon", "null", "a finite number above 0"),
        ("compute", "heads", "0", "a whole number from 1 to 64"),
        ("compute", "heads", "-1", "a whole number from 1 to 64"),
        ("compute", "heads", "2.5", "a whole number from 1 to 64"),
        ("compute", "patch", "0", "a whole number from 1 to 64"),
        ("compute", "stride", "0", "a whole number from 1 to 256"),
        ("compute", "landmark_side", "45", "a whole number from 1 to 44"),
        ("compute", "random_features", "0", "a whole number from 1 to 1024"),
        ("compute", "mask", "7", "a mask in words"),
        ("compute", "mask", "\"toeplitz:gaus\"", "a profile (exp, gauss"),
        ("compute", "mask", "\"stencil:3x3,1/2\"", "9 for 3x3"),
        ("compute", "mask", "\"toplitz:gauss\"", "did you mean toeplitz?"),
        ("compute", "mask", "\"diffusion:t=3\"", "masks along edges have a view of their own"),
        ("compute", "mask", "\"decay:\\n2\"", "γ from 0 to 1"),
        ("compute", "max_tokens", "0", "a whole number from 1 to"),
        ("look", "opacity", "1.5", "a number from 0 to 1"),
        ("look", "fusion", "{\"Head\":4}", "a whole number from 0 to 3, as there are 4 heads"),
        ("look", "range", "{\"Clip\":50}", "a number from 0 to 49"),
        ("look", "range", "{\"Fixed\":[0,1e39]}", "a number from -340"),
    ];
    for (part, field, got, expected) in cases {
        let text =
            format!("{{\"version\":1,\"document\":{{\"settings\":{{\"{part}\":{{\"{field}\":{got}}}}}}}}}");
        fs::write(&path, &text).expect("written");
        let error = Session::load(&path).expect_err("it cannot be").to_string();
        let named = format!("document.settings.{part}.{field}");
        for what in ["s.json", &named, expected, "got "] {
            assert!(error.contains(what) && !error.contains('\n'), "{got}: {what} in {error}");
        }
        assert!(path.exists(), "one that was named by hand stays where it is");
    }
    let error = Session::load_last(&path).expect_err("it cannot be");
    assert!(matches!(&error, SessionError::Number { kept: Some(kept), .. } if kept.exists()), "{error}");
    fs::write(&path, "{\"version\":1,\"document\":{\"settings\":{\"compute\":{\"lambda\":1e-7}}}}")
        .expect("written");
    assert!(Session::load(&path).is_ok(), "small is not impossible");
}

#[test]
fn a_session_with_a_number_that_json_has_not_is_refused_before_writing() {
    let folder = Folder::new("nan");
    let path = folder.join("s.json");
    let mut session = a_session();
    session.document.settings.compute.epsilon = f32::NAN;
    assert!(matches!(session.save(&path), Err(SessionError::NotFinite)));
    assert_eq!(folder.files(), 0);
}

#[cfg(target_os = "linux")]
#[test]
fn the_last_session_has_its_place_in_the_users_data() {
    let env = |list: &'static [(&str, &str)]| {
        move |name: &str| list.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).into())
    };
    let place = |list| session::path_from(env(list)).map(|path| path.display().to_string());
    assert_eq!(
        place(&[("XDG_DATA_HOME", "/data"), ("HOME", "/home/x")]).as_deref(),
        Some("/data/wgattn/session.json")
    );
    assert_eq!(place(&[("HOME", "/home/x")]).as_deref(), Some("/home/x/.local/share/wgattn/session.json"));
    assert_eq!(
        place(&[("XDG_DATA_HOME", "relative"), ("HOME", "/h")]).as_deref(),
        Some("/h/.local/share/wgattn/session.json")
    );
    assert_eq!(place(&[]), None);
}

// Exports

#[test]
fn the_view_is_saved_as_it_was_seen() {
    let folder = Folder::new("view");
    let path = folder.join("view.png");
    let seen = ColorImage::new([2, 1], vec![Color32::from_rgb(1, 2, 3), Color32::WHITE]);
    export::view(&path, &seen).expect("saved");
    let back = image::open(&path).expect("a picture").to_rgb8();
    assert_eq!(
        (back.dimensions(), back.get_pixel(0, 0).0, back.get_pixel(1, 0).0),
        ((2, 1), [1, 2, 3], [255; 3])
    );
    assert!(matches!(export::view(&folder.join("view.gif"), &seen), Err(ExportError::Suffix { .. })));
    let error = export::view(&folder.join("nowhere/view.png"), &seen).expect_err("no folder");
    assert!(error.to_string().contains("there is no folder"), "{error}");
}

#[test]
fn the_map_is_saved_as_numbers() {
    let folder = Folder::new("map");
    let snapshot = snapshot();
    assert_eq!(export::map(&folder.join("m.npy"), &snapshot).expect("saved"), None);
    let array = arrays::read(folder.join("m.npy")).expect("read").remove("data").expect("the map");
    assert_eq!(array, Array { shape: vec![6, 8], data: ArrayData::F32(snapshot.row.fused.clone()) });
    for suffix in ["npz", "safetensors"] {
        let path = folder.join(&format!("m.{suffix}"));
        export::map(&path, &snapshot).expect("saved");
        let all = arrays::read(&path).expect("read");
        assert_eq!(all["heads"].shape, [2, 6, 8]);
        assert_eq!(all["exact"].shape, [6, 8]);
        assert_eq!(all["query"].data, ArrayData::U32(vec![1, 5]));
        assert_eq!(all["lambda"].data, ArrayData::F32(snapshot.lambda.clone()));
    }
    let range = export::map(&folder.join("m.png"), &snapshot).expect("saved").expect("its range");
    let most = snapshot.row.fused.iter().fold(0.0_f32, |a, b| a.max(*b));
    assert_eq!((range.low, range.high), (0.0, most));
    let grey = image::open(folder.join("m.png")).expect("a picture").to_luma16();
    for (pixel, value) in grey.pixels().zip(&snapshot.row.fused) {
        let back = f32::from(pixel.0[0]) / 65_535.0 * most;
        assert!((back - value).abs() <= most / 65_535.0, "{back} and {value}");
    }
}

#[test]
fn a_map_with_bad_numbers_goes_into_arrays_but_not_into_grey() {
    let folder = Folder::new("bad");
    let mut snapshot = snapshot();
    snapshot.row.fused[7] = f32::NAN;
    let error = export::map(&folder.join("m.png"), &snapshot).expect_err("NaN");
    assert!(error.to_string().starts_with("element 7"), "{error}");
    assert_eq!(folder.files(), 0);
    export::map(&folder.join("m.npy"), &snapshot).expect("saved");
    export::csv(&folder.join("m.csv"), &snapshot).expect("saved");
    let text = fs::read_to_string(folder.join("m.csv")).expect("read");
    assert!(text.lines().nth(8).expect("token 7").contains("NaN"));
}

#[test]
fn the_table_gives_the_same_bits_back() {
    let folder = Folder::new("csv");
    let mut snapshot = snapshot();
    snapshot.row.fused[3] = 0.1 + 1e-8;
    snapshot.row.heads[0][3] = f32::MIN_POSITIVE;
    let path = folder.join("row.csv");
    export::csv(&path, &snapshot).expect("saved");
    let text = fs::read_to_string(&path).expect("read");
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("token,row,col,x,y,head_1,head_2,fused,exact"));
    let exact = snapshot.exact_row.as_ref().expect("there is one");
    for (token, line) in lines.enumerate() {
        let numbers: Vec<&str> = line.split(',').collect();
        assert_eq!(numbers[..3], [token.to_string(), (token / 8).to_string(), (token % 8).to_string()]);
        let centre = snapshot.grid.token_rect(token).expect("a token").centre();
        assert_eq!(numbers[3..5], [centre.x.to_string(), centre.y.to_string()]);
        let bits = |text: &str| text.parse::<f32>().expect("a number").to_bits();
        let row = &snapshot.row;
        let wanted = [row.heads[0][token], row.heads[1][token], row.fused[token], exact.fused[token]];
        assert_eq!(numbers[5..].iter().map(|t| bits(t)).collect::<Vec<_>>(), wanted.map(f32::to_bits));
    }
    assert_eq!(text.lines().count(), 49);
}

#[test]
fn settings_are_json_that_can_be_read_again() {
    let folder = Folder::new("settings");
    let document = a_session().document;
    export::settings(&folder.join("s.json"), &document).expect("saved");
    let text = fs::read_to_string(folder.join("s.json")).expect("read");
    assert_eq!(serde_json::from_str::<Document>(&text).expect("a document"), document);
}

#[test]
fn a_sweep_becomes_an_animation() {
    use image::AnimationDecoder as _;
    let folder = Folder::new("sweep");
    let frame = |shade: u8| ColorImage::filled([6, 4], Color32::from_rgb(shade, 0, 200));
    let path = folder.join("sweep.gif");
    let shades = [10, 120, 250];
    export::animation(&path, &shades.map(frame), Duration::from_millis(80)).expect("saved");
    let file = std::io::BufReader::new(fs::File::open(&path).expect("there"));
    let frames = image::codecs::gif::GifDecoder::new(file)
        .expect("a GIF")
        .into_frames()
        .collect_frames()
        .expect("frames");
    assert_eq!(frames.len(), 3);
    for (frame, shade) in frames.iter().zip(shades) {
        assert_eq!(frame.delay().numer_denom_ms(), (80, 1));
        let [r, g, b, _] = frame.buffer().get_pixel(5, 3).0;
        assert!(r.abs_diff(shade) < 4 && g < 4 && b.abs_diff(200) < 4, "{r} {g} {b}");
    }
    let mixed = [frame(0), ColorImage::filled([5, 4], Color32::BLACK)];
    let error = export::animation(&path, &mixed, Duration::ZERO).expect_err("sizes differ");
    assert!(error.to_string().contains("frame 1 has 5 × 4 pixels"), "{error}");
    assert!(matches!(export::animation(&path, &[], Duration::ZERO), Err(ExportError::Nothing)));
}

#[test]
fn nothing_is_written_over_the_picture_itself() {
    let folder = Folder::new("input");
    let picture = folder.join("cat.png");
    fs::write(&picture, "cat").expect("written");
    let error = export::keep_input(Some(&picture), &folder.join("./cat.png")).expect_err("the same");
    assert!(error.to_string().contains("is the picture itself"), "{error}");
    export::keep_input(Some(&picture), &folder.join("other.png")).expect("another");
    export::keep_input(None, &picture).expect("no picture");
}

// The probe

#[test]
fn the_probe_tells_value_share_rank_and_distance() {
    let snapshot = snapshot();
    // Token 20 is column 4, row 2; the query 13 is column 5, row 1.
    let probe = describe(&snapshot, UVec2::new(36, 20)).expect("inside");
    assert_eq!((probe.token, probe.col, probe.row), (20, 4, 2));
    assert!((probe.distance - 2.0_f64.sqrt()).abs() < 1e-12);
    assert!(probe.sink && probe.flags() == ["sink"]);
    let row = &snapshot.row;
    for (entry, numbers) in probe.heads.iter().chain([&probe.fused]).zip(row.heads.iter().chain([&row.fused]))
    {
        let value = numbers[20];
        let mut sorted = numbers.clone();
        sorted.sort_by(|a, b| b.total_cmp(a));
        let sum: f64 = numbers.iter().map(|x| f64::from(x.abs())).sum();
        assert_eq!(entry.value, value);
        assert_eq!(entry.rank, sorted.iter().position(|x| *x == value).map(|i| i + 1));
        assert!((entry.share.expect("a share") - f64::from(value) / sum).abs() < 1e-12);
    }
    assert_eq!(probe.error(), Some(-0.0625));
    assert_eq!(describe(&snapshot, UVec2::new(64, 0)), None, "outside");
}

#[test]
fn the_probe_flags_what_is_not_finite() {
    let mut snapshot = snapshot();
    snapshot.row.heads[1][0] = f32::INFINITY;
    snapshot.row.fused[0] = f32::NAN;
    let probe = describe(&snapshot, UVec2::ZERO).expect("inside");
    assert_eq!(probe.flags(), ["NaN", "infinite"]);
    assert_eq!((probe.fused.rank, probe.fused.share), (None, None));
    assert_eq!((probe.heads[1].rank, probe.heads[1].share), (Some(1), None));
    snapshot.row.fused.truncate(10);
    assert_eq!(describe(&snapshot, UVec2::new(63, 47)), None, "a row that is shorter than the grid");
}

#[test]
fn the_probe_is_quick_for_a_million_tokens() {
    let mut snapshot = snapshot();
    snapshot.grid = TokenGrid::plan(UVec2::new(1024, 1024), 8, 1, 1 << 20).expect("a grid");
    let tokens = snapshot.grid.tokens();
    let numbers: Vec<f32> = (0..tokens).map(|t| ((t * 7919) % tokens) as f32).collect();
    snapshot.row.heads = vec![numbers.clone(); 4];
    snapshot.row.fused = numbers;
    let start = Instant::now();
    let probe = describe(&snapshot, UVec2::new(1, 0)).expect("inside");
    let took = start.elapsed();
    assert_eq!(probe.fused.rank, Some(tokens - 7919));
    // Five rows of a million; a frame is 16 ms, and this build and machine are slow.
    assert!(took < Duration::from_millis(250), "{took:?}");
}

// Arrays of one's own model

fn array(shape: &[usize]) -> Array {
    let count: usize = shape.iter().product();
    Array { shape: shape.to_vec(), data: ArrayData::F32((0..count).map(|i| i as f32).collect()) }
}

fn set(list: &[(&str, Array)]) -> BTreeMap<String, Array> {
    list.iter().map(|(name, array)| ((*name).to_string(), array.clone())).collect()
}

fn take(
    list: &[(&str, Array)],
    picture: Option<UVec2>,
) -> Result<wgattn::explorer::arrays_source::ModelArrays, ModelError> {
    from_arrays(&set(list), picture, ArrayChoice::default())
}

#[test]
fn arrays_of_a_square_model_are_read_from_both_formats() {
    let folder = Folder::new("arrays");
    let list = set(&[("q", array(&[2, 16, 3])), ("K", array(&[2, 16, 3])), ("value", array(&[2, 16, 5]))]);
    for suffix in ["npz", "safetensors"] {
        let path = folder.join(&format!("m.{suffix}"));
        arrays::write(&path, &list).expect("written");
        let model = open(&path, None, ArrayChoice::default()).expect("a model");
        assert_eq!((model.heads, model.tokens, model.dim, model.value_dim), (2, 16, 3, 5));
        assert_eq!(model.grid, (4, 4));
        assert_eq!(model.q.len(), 96);
        assert_eq!(model.v.as_ref().map(Vec::len), Some(160));
        assert!(model.notices.is_empty(), "{:?}", model.notices);
    }
    let error = open(folder.join("none.npz"), None, ArrayChoice::default()).expect_err("no file");
    assert!(error.to_string().contains("cannot read"), "{error}");
}

#[test]
fn class_tokens_and_registers_are_left_out_with_a_notice() {
    let one = array(&[1, 17, 2]);
    let model = take(&[("q", one.clone()), ("k", one)], None).expect("a model");
    assert_eq!((model.tokens, model.grid), (16, (4, 4)));
    assert_eq!(model.q[..2], [2.0, 3.0], "the first token is gone");
    assert!(model.notices[0].contains("a class token in front of the 16 tokens"), "{:?}", model.notices);
    let five = array(&[2, 14, 1]);
    let model = take(&[("q", five.clone()), ("k", five)], None).expect("a model");
    assert_eq!((model.tokens, model.grid), (9, (3, 3)));
    assert_eq!(model.k[9], 19.0, "and of every head");
}

#[test]
fn a_grid_comes_from_the_file_the_picture_or_a_square() {
    let tokens = array(&[1, 24, 2]);
    let list = [("q", tokens.clone()), ("k", tokens.clone())];
    let wide = Some(UVec2::new(600, 400));
    assert_eq!(take(&list, wide).expect("a model").grid, (4, 6));
    let tall = Some(UVec2::new(400, 600));
    assert_eq!(take(&list, tall).expect("a model").grid, (6, 4));
    let grid = Array { shape: vec![2], data: ArrayData::I32(vec![3, 8]) };
    let with = [list[0].clone(), list[1].clone(), ("grid", grid)];
    assert_eq!(take(&with, wide).expect("a model").grid, (3, 8));
    let chosen = ArrayChoice { grid: Some((2, 11)), ..ArrayChoice::default() };
    let model = from_arrays(&set(&list), wide, chosen).expect("a model");
    assert_eq!((model.grid, model.tokens), ((2, 11), 22), "two extra tokens");
    let chosen = ArrayChoice { grid: Some((5, 5)), ..ArrayChoice::default() };
    let error = from_arrays(&set(&list), wide, chosen).expect_err("too many");
    assert!(error.to_string().contains("24 tokens do not fill the 5 × 5 grid"), "{error}");
    let prime = array(&[1, 23, 2]);
    let error = take(&[("q", prime.clone()), ("k", prime)], wide).expect_err("no grid");
    assert!(error.to_string().contains("add an array `grid`"), "{error}");
    let square = array(&[1, 16, 2]);
    let model = take(&[("q", square.clone()), ("k", square)], Some(UVec2::new(900, 300))).expect("a model");
    assert!(model.grid == (4, 4) && model.notices[0].contains("stretched"), "{:?}", model.notices);
}

#[test]
fn one_picture_of_a_batch_is_chosen() {
    let batch = array(&[3, 2, 4, 1]);
    let list = set(&[("q", batch.clone()), ("k", batch)]);
    let model = from_arrays(&list, None, ArrayChoice::default()).expect("a model");
    assert!(model.q[0] == 0.0 && model.notices[0].contains("first of 3"), "{:?}", model.notices);
    let third = ArrayChoice { batch: Some(2), ..ArrayChoice::default() };
    let model = from_arrays(&list, None, third).expect("a model");
    assert!(model.q[0] == 16.0 && model.notices.is_empty());
    let fourth = ArrayChoice { batch: Some(3), ..ArrayChoice::default() };
    let error = from_arrays(&list, None, fourth).expect_err("there are three");
    assert_eq!(error.to_string(), "picture 3 of the batch: there are 3; choose 0 to 2");
}

#[test]
fn queries_keys_and_values_may_be_packed() {
    for shape in [vec![3, 2, 4, 5], vec![3, 1, 2, 4, 5]] {
        let model = take(&[("blocks.11.attn.qkv", array(&shape))], None).expect("a model");
        assert_eq!((model.heads, model.tokens, model.dim, model.value_dim), (2, 4, 5, 5));
        assert_eq!((model.q[0], model.k[0], model.v.expect("values")[0]), (0.0, 40.0, 80.0));
    }
}

#[test]
fn wrong_arrays_are_named_with_what_is_wrong() {
    let good = array(&[2, 4, 3]);
    let message = |list: &[(&str, Array)]| take(list, None).expect_err("wrong").to_string();
    let text = message(&[("q", good.clone()), ("x", good.clone())]);
    assert!(text.contains("no array of keys") && text.contains("found `q`, `x`"), "{text}");
    let text = message(&[("q", good.clone()), ("k", array(&[2, 4, 2]))]);
    assert!(
        text.contains("array `k`: expected [h, n, d] = [2, 4, 3] as the queries, got [2, 4, 2]"),
        "{text}"
    );
    let text = message(&[("q", array(&[4, 3])), ("k", good.clone())]);
    assert!(text.contains("expected [h, n, d] or [b, h, n, d], got [4, 3]"), "{text}");
    let text = message(&[("a.q", good.clone()), ("b.q", good.clone()), ("k", good.clone())]);
    assert!(text.contains("several arrays could be the queries: `a.q`, `b.q`"), "{text}");
    let whole = Array { shape: vec![2, 4, 3], data: ArrayData::I32(vec![1; 24]) };
    let text = message(&[("q", whole), ("k", good.clone())]);
    assert!(text.contains("expected f16, bf16, f32 or f64, got i32"), "{text}");
    let mut bad = good.clone();
    if let ArrayData::F32(values) = &mut bad.data {
        values[17] = f32::NEG_INFINITY;
    }
    let text = message(&[("q", good.clone()), ("k", bad)]);
    assert!(text.contains("array `k`: head 1, token 1, number 2 is -inf"), "{text}");
    let text = message(&[("q", array(&[0, 4, 3])), ("k", good)]);
    assert!(text.contains("at least one head"), "{text}");
}
