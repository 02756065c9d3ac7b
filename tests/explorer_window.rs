//! The real window, on a virtual display: it opens, shows the map, is photographed and closes; and what happens without one.

mod display;

use display::Display;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use wgattn::explorer::document::Document;
use wgattn::explorer::session::Session;

fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wgattn"));
    command.env_remove("WAYLAND_DISPLAY");
    command.env("XDG_DATA_HOME", folder());
    command
}

fn folder() -> PathBuf {
    let folder = std::env::temp_dir().join(format!("wgattn-window-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for results");
    folder
}

fn finished(mut command: Command, most: Duration) -> Output {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
    let (id, start) = (child.id(), Instant::now());
    let waiting = std::thread::spawn(move || child.wait_with_output().expect("the program ends"));
    while !waiting.is_finished() {
        if start.elapsed() > most {
            let _ = Command::new("kill").arg(id.to_string()).status();
            panic!("the window did not close within {most:?}");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    waiting.join().expect("the output")
}

/// Whether a picture shows something: many colours.
fn shows_something(path: &PathBuf) -> bool {
    let picture = image::open(path).expect("a picture").to_rgb8();
    let colours: std::collections::BTreeSet<[u8; 3]> = picture.pixels().map(|p| p.0).collect();
    picture.width() >= 1000 && colours.len() > 1000
}

#[test]
fn the_window_opens_shows_the_map_and_closes() {
    let Some(display) = Display::start() else { return };
    let target = folder().join("window.png");
    let mut command = program();
    display.lead(&mut command).args(["explore", "--theme", "dark", "--screenshot"]).arg(&target);
    let start = Instant::now();
    let output = finished(command, Duration::from_secs(60));
    println!("from start to a photographed map: {:.1} s", start.elapsed().as_secs_f64());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(shows_something(&target));
    let size = image::image_dimensions(&target).expect("a picture");
    assert_eq!(size, (1280, 800), "the size that the help states");
}

/// Width of the frame around the picture below, by which it is found on the screenshot.
const FRAME: u32 = 4;

/// In a frame of magenta: above a ramp of grey, one level a column; below, bars of colours.
fn ramp_and_bars() -> (image::RgbImage, [[u8; 3]; 8]) {
    let bars = [
        [255, 255, 255],
        [255, 255, 0],
        [0, 255, 255],
        [0, 255, 0],
        [191, 64, 128],
        [255, 0, 0],
        [0, 0, 255],
        [12, 34, 56],
    ];
    let picture = image::RgbImage::from_fn(256 + 2 * FRAME, 152 + 2 * FRAME, |x, y| {
        let (column, row) = (x.wrapping_sub(FRAME), y.wrapping_sub(FRAME));
        image::Rgb(match (column, row) {
            (0..256, 0..76) => [column as u8; 3],
            (0..256, 76..152) => bars[column as usize / 32],
            _ => [255, 0, 255],
        })
    });
    (picture, bars)
}

/// C29: with the map hidden, the screen shows the levels of the file within one.
#[test]
fn a_grey_ramp_and_colour_bars_are_shown_as_they_are() {
    let Some(display) = Display::start() else { return };
    let [picture, session, target] =
        ["ramp.png", "ramp.json", "ramp-window.png"].map(|name| folder().join(name));
    let (drawn, bars) = ramp_and_bars();
    drawn.save(&picture).expect("the picture is written");
    // The query's ring lies in a corner, the map is drawn with no weight at all.
    let mut document = Document { query: [drawn.width() - 1, drawn.height() - 1], ..Document::default() };
    document.settings.look.opacity = 0.0;
    let kept = Session { document, source: Some(picture.display().to_string()), ..Session::default() };
    kept.save(&session).expect("the session is written");
    let mut command = program();
    display.lead(&mut command).args(["explore", "--session"]).arg(&session).arg("--screenshot").arg(&target);
    let output = finished(command, Duration::from_secs(60));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    let seen = image::open(&target).expect("a screenshot").to_rgb8();
    let magenta = || seen.enumerate_pixels().filter(|(_, _, p)| p.0 == [255, 0, 255]);
    let ends = |of: &dyn Fn(u32, u32) -> u32| {
        let low = magenta().map(|(x, y, _)| of(x, y)).min().expect("the picture's frame");
        let high = magenta().map(|(x, y, _)| of(x, y)).max().expect("the picture's frame");
        (f64::from(low), f64::from(high + 1))
    };
    let ((left, right), (top, bottom)) = (ends(&|x, _| x), ends(&|_, y| y));
    let scale = (right - left) / f64::from(drawn.width());
    assert!(
        scale > 2.0 && ((bottom - top) / f64::from(drawn.height()) / scale - 1.0).abs() < 0.02,
        "{scale}"
    );
    let row = |y: f64| (top + scale * (f64::from(FRAME) + y)) as u32;
    let mut levels = 0;
    for x in left as u32..right as u32 {
        // Between the middles of two columns their levels are mixed, which is less than one level off either. The outermost
        // columns are mixed with the frame.
        let column = (f64::from(x) + 0.5 - left) / scale - f64::from(FRAME);
        if (1.0..255.0).contains(&column) {
            let got = seen.get_pixel(x, row(38.0)).0;
            let wanted = column as u8;
            assert!(got.iter().all(|g| g.abs_diff(wanted) <= 1), "expected {wanted} ± 1, got {got:?} at {x}");
            levels += 1;
        }
    }
    assert!(levels > 500, "{levels} places of the ramp");
    for (index, wanted) in bars.into_iter().enumerate() {
        let x = (left + scale * (f64::from(FRAME) + 32.0 * index as f64 + 16.0)) as u32;
        let got = seen.get_pixel(x, row(96.0)).0;
        let near = got.iter().zip(wanted).all(|(g, w)| g.abs_diff(w) <= 1);
        assert!(near, "bar {index}: expected {wanted:?} ± 1, got {got:?}");
    }
}

/// Another program destroys the window without asking, as `xdotool windowclose` does.
#[cfg(target_os = "linux")]
#[test]
fn a_window_that_is_taken_away_is_told_in_one_line() {
    use x11rb::connection::Connection as _;
    use x11rb::protocol::xproto::{ConnectionExt as _, MapState};
    let Some(display) = Display::start() else { return };
    let mut command = program();
    display.lead(&mut command).arg("explore");
    let name = display.name().to_owned();
    let taking = std::thread::spawn(move || {
        let (connection, screen) = x11rb::connect(Some(&name)).expect("the display answers");
        let root = connection.setup().roots[screen].root;
        let start = Instant::now();
        loop {
            assert!(start.elapsed() < Duration::from_secs(30), "no window");
            std::thread::sleep(Duration::from_millis(100));
            let tree = connection.query_tree(root).expect("asked").reply().expect("the windows");
            let shown = tree.children.into_iter().find(|w| {
                let about = connection.get_window_attributes(*w).ok().and_then(|about| about.reply().ok());
                about.is_some_and(|about| about.map_state == MapState::VIEWABLE)
            });
            if let Some(window) = shown {
                // Frames are being drawn by then.
                std::thread::sleep(Duration::from_millis(1500));
                connection.destroy_window(window).expect("asked").check().expect("destroyed");
                return;
            }
        }
    });
    let output = finished(command, Duration::from_secs(60));
    taking.join().expect("the window was taken away");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let lines: Vec<&str> = text.lines().filter(|l| l.starts_with("error:") && !l.contains("XDG_")).collect();
    assert_eq!((output.status.code(), lines.len()), (Some(1), 1), "{text}");
    assert!(lines[0].contains("the window is gone") && lines[0].contains("--resume"), "{text}");
    assert!(!text.contains("panicked"), "{text}");
}

/// C33: a Wayland that is named but does not answer gives way to X11.
#[test]
fn a_wayland_that_does_not_answer_gives_way_to_x11() {
    let Some(display) = Display::start() else { return };
    let target = folder().join("x11.png");
    let mut command = program();
    display.lead(&mut command).env("WAYLAND_DISPLAY", "bogus");
    command.args(["explore", "--view", "compare", "--screenshot"]).arg(&target);
    let output = finished(command, Duration::from_secs(60));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(shows_something(&target));
}

/// A picture of the window is taken of what was asked for, or not at all.
#[test]
fn nothing_is_photographed_in_place_of_what_is_missing() {
    let Some(display) = Display::start() else { return };
    let [target, refused, gone] = ["none.png", "refused.json", "gone.json"].map(|name| folder().join(name));
    std::fs::write(&refused, "{\n\"version\": 1,\n\"open_views\": 3}").expect("written");
    let source = Some("/nowhere/gone.png".to_string());
    Session { source, ..Session::default() }.save(&gone).expect("saved");
    let text = |path: &PathBuf| path.display().to_string();
    let cases: [(Vec<String>, &str); 4] = [
        (vec!["--session".into(), "/nowhere/s.json".into()], "/nowhere/s.json"),
        (vec!["--session".into(), text(&refused)], "open_views"),
        (vec!["--session".into(), text(&gone)], "/nowhere/gone.png"),
        (vec!["cat".into(), "/nowhere/second.png".into()], "/nowhere/second.png"),
    ];
    for (arguments, reason) in cases {
        let mut command = program();
        display.lead(&mut command).arg("explore").args(&arguments).arg("--screenshot").arg(&target);
        let output = finished(command, Duration::from_secs(60));
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {text}");
        assert!(text.contains("error:") && text.contains(reason), "{arguments:?}: {text}");
        assert!(!target.exists(), "{arguments:?}");
    }
}

/// C33: over SSH without a display.
#[test]
fn without_a_display_one_line_points_to_the_command_line() {
    let mut command = program();
    command.env_remove("DISPLAY").args(["explore"]);
    let output = finished(command, Duration::from_secs(20));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let ours: Vec<&str> = text.lines().filter(|l| !l.contains("XDG_RUNTIME_DIR")).collect();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert_eq!(ours.len(), 1, "{text}");
    assert!(ours[0].starts_with("error: no display") && ours[0].contains("wgattn map"), "{text}");
}

#[test]
fn a_display_that_does_not_answer_is_told_alike() {
    let mut command = program();
    command.env("DISPLAY", ":64999").args(["explore"]);
    let output = finished(command, Duration::from_secs(20));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(
        text.contains("error: no display") && text.contains(":64999") && text.contains("wgattn map"),
        "{text}"
    );
}

#[test]
fn wrong_arguments_are_refused_before_any_window() {
    let mut command = program();
    command.env_remove("DISPLAY").args(["explore", "--view", "nonsense"]);
    let output = finished(command, Duration::from_secs(20));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("nonsense") && text.contains("attention"), "{text}");
}
