//! `wgattn map` on clips: frames, videos, and what does not fit them.

use super::*;

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
