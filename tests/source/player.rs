//! The player: what of a source is given when, what it says of one that hangs, and how it is paused and gone through.

use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use glam::UVec2;
use wgattn::source::fake::{Act, Fake};
use wgattn::source::pixels::PixelFormat;
use wgattn::source::synthetic::Synthetic;
use wgattn::source::{Frame, Kind, Next, Player, Source, SourceError};

use super::{Folder, at_once, large, one_line, opened, raw, y4m, yuyv};

fn player(source: impl Source + 'static) -> (Player, Receiver<()>) {
    let (sender, woken) = channel();
    // Nobody listens any more once the test is over.
    let wake = move || sender.send(()).unwrap_or_default();
    (Player::start(Box::new(source), wake), woken)
}

/// Waits until `done` holds, woken by the player or every few milliseconds.
fn until(player: &Player, woken: &Receiver<()>, what: &str, done: impl Fn(&Player) -> bool) {
    let start = Instant::now();
    while !done(player) {
        assert!(start.elapsed() < Duration::from_secs(15), "{what}: {:?}", player.status());
        let _ = woken.recv_timeout(Duration::from_millis(5));
    }
}

fn taken(player: &Player, woken: &Receiver<()>) -> Frame {
    let start = Instant::now();
    loop {
        match player.take() {
            Some(Ok(frame)) => return frame,
            Some(Err(error)) => panic!("expected a frame, got {error}"),
            None => assert!(start.elapsed() < Duration::from_secs(15), "no frame: {:?}", player.status()),
        }
        let _ = woken.recv_timeout(Duration::from_millis(5));
    }
}

fn grey(code: u8, delay: Duration) -> Act {
    Act::Frame { raw: raw(PixelFormat::Yuyv, 4, 2, yuyv(4, 2, [code, 128, 128])), delay }
}

/// C34: at the end the camera is unplugged.
#[test]
fn the_newest_picture_wins_and_the_others_are_counted() {
    let acts = (0..10).map(|i| grey(20 * i, Duration::ZERO)).chain([Act::Disconnect]);
    let (player, woken) = player(Fake::new("camera", acts));
    until(&player, &woken, "the end", |p| p.status().ended);
    let error = player.take().expect("it was lost").expect_err("an error comes first");
    assert!(one_line(&error).contains("camera is gone: it was unplugged"), "{error}");
    let frame = player.take().expect("a picture is left").expect("it is good");
    assert_eq!(frame.index, 9);
    assert!(player.take().is_none(), "each picture is given once");
    let status = player.status();
    assert_eq!((status.dropped, status.index, status.kind), (9, 9, Kind::Live));
    assert_eq!(status.frozen, None, "one that has ended is not frozen");
}

/// C34: a stall.
#[test]
fn a_camera_that_stalls_is_said_to_be_frozen() {
    let acts = [grey(50, Duration::ZERO), grey(60, Duration::ZERO), Act::Stall];
    let (player, woken) = player(Fake::new("camera", acts));
    until(&player, &woken, "two frames", |p| p.status().index == 1);
    assert_eq!(player.status().frozen, None);
    until(&player, &woken, "frozen", |p| p.status().frozen.is_some());
    let status = player.status();
    assert!(status.since_last_frame >= Duration::from_secs(2), "{status:?}");
    assert!(status.frozen.as_deref().is_some_and(|w| w.contains("no new picture for 2 s")), "{status:?}");
    assert!(status.frames_per_second < 1.0, "{status:?}");
    player.set_playing(false);
    assert_eq!(player.status().frozen, None, "one that is paused is not frozen");
}

#[test]
fn one_picture_a_second_is_slow_but_not_frozen() {
    let second = Duration::from_secs(1);
    let acts = (0..4).map(|i| grey(40 * i, if i == 0 { Duration::ZERO } else { second })).chain([Act::Stall]);
    let (player, woken) = player(Fake::new("camera", acts));
    until(&player, &woken, "four frames", |p| {
        assert_eq!(p.status().frozen, None);
        p.status().index == 3
    });
    let rate = player.status().frames_per_second;
    assert!((0.8..1.2).contains(&rate), "expected about one picture a second, got {rate}");
}

/// C35: 60 identical pictures, 60 black ones.
#[test]
fn sixty_identical_or_black_pictures_are_noticed() {
    for (code, words) in [(90, "60 pictures are identical"), (16, "60 pictures are black")] {
        let acts = (0..60).map(|_| grey(code, Duration::ZERO)).chain([Act::Stall]);
        let (player, woken) = player(Fake::new("camera", acts));
        until(&player, &woken, "sixty frames", |p| p.status().index == 59);
        let frozen = player.status().frozen.expect("it says so");
        assert!(frozen.contains(words), "{frozen}");
    }
    // Another picture in between, and all is well.
    let acts = (0..70).map(|i| grey(if i == 30 { 91 } else { 90 }, Duration::ZERO)).chain([Act::Stall]);
    let (player, woken) = player(Fake::new("camera", acts));
    until(&player, &woken, "seventy frames", |p| p.status().index == 69);
    assert_eq!(player.status().frozen, None);
}

/// C30: 12 000 × 9 000 pixels come through the player whole, and are reduced only for the screen.
#[test]
fn a_picture_of_108_megapixels_is_played_and_said_to_be_shown_smaller() {
    let folder = Folder::new("large");
    large::draw(&folder.0.join("large.png"));
    let (sender, woken) = channel();
    let player = Player::start(opened(&folder.at("large.png")), move || sender.send(()).unwrap_or_default());
    let frame = taken(&player, &woken);
    assert_eq!(frame.photo.size(), UVec2::from(large::SIZE));
    let shown = frame.photo.display(8192);
    assert_eq!(shown.picture.dimensions(), (8192, 6144));
    assert_eq!(shown.notice().as_deref(), Some("shown at 1:1.5 (8192x6144 of 12000x9000 pixels)"));
    let colour = |x, y| shown.picture.get_pixel(x, y).0;
    assert_eq!(
        [colour(10, 10), colour(8000, 10), colour(10, 1500)],
        [[40, 90, 180], [20, 60, 110], [200, 90, 20]]
    );
}

/// C34: bad frames are counted.
#[test]
fn corrupt_frames_are_counted_and_the_player_goes_on() {
    let short = || at_once(raw(PixelFormat::Yuyv, 4, 2, vec![0; 3]));
    let (player, woken) =
        player(Fake::new("camera", [grey(50, Duration::ZERO), short(), short(), grey(90, Duration::ZERO)]));
    until(&player, &woken, "the end", |p| p.status().ended);
    let error = player.take().expect("something went wrong").expect_err("an error comes first");
    assert!(one_line(&error).contains("frame 2 of camera"), "{error}");
    assert_eq!(player.take().expect("a picture").expect("it is good").index, 3);
    assert_eq!(player.status().faults, 2);
}

#[test]
fn a_clip_keeps_its_time_pauses_steps_and_goes_anywhere() {
    let (player, woken) = player(Synthetic::new());
    let start = Instant::now();
    until(&player, &woken, "twelve frames", |p| p.status().index >= 12);
    assert!(
        start.elapsed() >= Duration::from_millis(12 * 40 - 5),
        "faster than its times: {:?}",
        start.elapsed()
    );
    assert!(player.playing());
    player.set_playing(false);
    taken(&player, &woken);
    // A frame may have been under way.
    std::thread::sleep(Duration::from_millis(100));
    player.take();
    let index = player.status().index;
    std::thread::sleep(Duration::from_millis(150));
    assert_eq!(player.status().index, index, "it is paused");

    player.step(1);
    assert_eq!(taken(&player, &woken).index, index + 1);
    player.step(-2);
    assert_eq!(taken(&player, &woken).index, index - 1);
    player.step(-1_000_000);
    assert_eq!(taken(&player, &woken).index, 0, "stops at the beginning");
    player.go_to(5000);
    assert_eq!(taken(&player, &woken).index, 5000);
    assert!(!player.playing());
    player.set_playing(true);
    assert_eq!(taken(&player, &woken).index, 5001);
    player.step(1);
    assert!(!player.playing(), "stepping pauses a clip");
}

#[test]
fn a_clip_ends_and_starts_over() {
    let folder = Folder::new("ends");
    let file = y4m("W4 H2 F100:1 C420", &[[90, 128, 128]; 3], [8, 2]);
    let source = opened(&folder.write("short.y4m", file));
    let (sender, woken) = channel();
    let player = Player::start(source, move || sender.send(()).unwrap_or_default());
    until(&player, &woken, "the end", |p| p.status().ended);
    assert_eq!((taken(&player, &woken).index, player.status().name), (2, "short.y4m".into()));
    player.set_playing(true);
    until(&player, &woken, "it plays", |p| !p.status().ended);
    until(&player, &woken, "the end", |p| p.status().ended);
    // From the end one can step back, and an index past the end is told.
    player.take();
    player.step(-1);
    assert_eq!(taken(&player, &woken).index, 1);
    player.go_to(7);
    until(&player, &woken, "an answer", |p| match p.take() {
        Some(Err(error)) => one_line(&error).contains("0 to 2"),
        Some(Ok(frame)) => panic!("expected an error, got frame {}", frame.index),
        None => false,
    });
}

#[test]
fn a_folder_waits_at_each_picture_even_at_one_that_cannot_be_read() {
    let folder = Folder::new("stepped");
    folder.flat("1.png", [1, 0, 0]);
    folder.write("2.png", "broken");
    folder.flat("3.png", [3, 0, 0]);
    let source = opened(&folder.0.display().to_string());
    let (sender, woken) = channel();
    let player = Player::start(source, move || sender.send(()).unwrap_or_default());
    assert_eq!(taken(&player, &woken).index, 0);
    std::thread::sleep(Duration::from_millis(150));
    assert!(player.take().is_none(), "it waits");
    player.step(1);
    until(&player, &woken, "an error", |p| match p.take() {
        Some(Err(error)) => one_line(&error).contains("2.png"),
        Some(Ok(frame)) => panic!("expected an error, got frame {}", frame.index),
        None => false,
    });
    std::thread::sleep(Duration::from_millis(150));
    assert!(player.take().is_none(), "it waits at the broken one too");
    player.step(1);
    assert_eq!(taken(&player, &woken).index, 2);
    player.step(5);
    assert_eq!(taken(&player, &woken).index, 2, "stops at the end");
    player.step(-2);
    assert_eq!(taken(&player, &woken).index, 0);
}

#[test]
fn dropping_a_player_ends_its_source() {
    #[derive(Debug)]
    struct Told(Synthetic, std::sync::mpsc::Sender<()>);
    impl Drop for Told {
        fn drop(&mut self) {
            self.1.send(()).unwrap_or_default();
        }
    }
    impl Source for Told {
        fn name(&self) -> String {
            self.0.name()
        }
        fn kind(&self) -> Kind {
            self.0.kind()
        }
        fn next(&mut self) -> Result<Next, SourceError> {
            self.0.next()
        }
        fn go_to(&mut self, index: u64) -> Result<(), SourceError> {
            self.0.go_to(index)
        }
    }
    let (sender, ended) = channel();
    drop(Player::start(Box::new(Told(Synthetic::new(), sender)), || {}));
    ended.recv_timeout(Duration::from_secs(5)).expect("the source is dropped on its thread");
}
