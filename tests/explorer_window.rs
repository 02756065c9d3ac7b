//! The real window, on a virtual display: it opens, shows the map, is photographed and closes; and what happens without one.

mod display;

use display::Display;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

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
