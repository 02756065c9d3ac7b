//! Clips: uncompressed video, numbered pictures, what ffmpeg reads for us, and the drawn scene.

use std::fs;
use std::path::Path;
use std::time::Duration;

use glam::UVec2;
use image::{ImageFormat, RgbImage};
use wgattn::source::{Frame, Kind, Source as _, ffmpeg};

use super::{
    Folder, assert_end, assert_near, encoded, failure, frame, one_line, opened, pixel, pixels, refused,
    textbook, y4m,
};

#[test]
fn y4m_of_every_chroma_and_odd_size_is_read() {
    let folder = Folder::new("y4m");
    let ycc = [100, 90, 180];
    for (chroma, c_len) in
        [("420", 6), ("420jpeg", 6), ("420paldv", 6), ("420mpeg2", 6), ("422", 9), ("444", 15), ("mono", 0)]
    {
        let header = format!("W5 H3 F30000:1001 Ip A1:1 C{chroma}");
        let mut source = opened(&folder.write("odd.y4m", y4m(&header, &[ycc, [200, 128, 128]], [15, c_len])));
        assert_eq!(source.kind(), Kind::Clip { frames: Some(2) }, "C{chroma}");
        let frame = frame(source.as_mut());
        assert_eq!(frame.photo.size(), UVec2::new(5, 3));
        let wanted = textbook(if chroma == "mono" { [100, 128, 128] } else { ycc }, 0.299, 0.114);
        assert_near(pixel(&frame, 4, 2), wanted, 1);
        let time = frame.shown_for.expect("video has times").as_secs_f64();
        assert!((time - 1001.0 / 30000.0).abs() < 1e-6, "{time}");
        assert!(frame.notices.is_empty(), "{:?}", frame.notices);
    }
}

#[test]
fn y4m_of_ten_bits_and_of_full_range_is_read() {
    let folder = Folder::new("y4m_range");
    let mut ten = b"YUV4MPEG2 W2 H2 F25:1 C420p10 XYSCSS=420P10\n".to_vec();
    for luma in [64_u16, 940] {
        ten.extend(b"FRAME\n");
        ten.extend([luma; 4].iter().chain(&[512; 2]).flat_map(|v| v.to_le_bytes()));
    }
    let mut source = opened(&folder.write("ten.y4m", ten));
    assert_eq!(pixel(&frame(source.as_mut()), 1, 1), [0; 3]);
    assert_eq!(pixel(&frame(source.as_mut()), 1, 1), [255; 3]);
    for (range, wanted) in [("LIMITED", 0), ("FULL", 16)] {
        let header = format!("W2 H2 F25:1 C420jpeg XCOLORRANGE={range}");
        let mut source = opened(&folder.write("range.y4m", y4m(&header, &[[16, 128, 128]], [4, 1])));
        assert_eq!(pixel(&frame(source.as_mut()), 0, 0), [wanted; 3], "{range}");
    }
}

#[test]
fn y4m_can_be_gone_through_in_any_order() {
    let folder = Folder::new("y4m_seek");
    let frames: Vec<[u8; 3]> = (0..5).map(|i| [16 + 40 * i, 128, 128]).collect();
    let bare = y4m("W4 H2 F25:1 C420", &frames, [8, 2]);
    // With parameters in some frame lines, places cannot be computed.
    let mut uneven = b"YUV4MPEG2 W4 H2 F25:1 C420\n".to_vec();
    for (i, chunk) in bare[uneven.len()..].chunks(18).enumerate() {
        uneven.extend(if i % 2 == 0 { b"FRAME Ip\n".as_slice() } else { b"FRAME\n" });
        uneven.extend(&chunk[6..]);
    }
    for (name, file, known) in [("bare.y4m", bare, Some(5)), ("uneven.y4m", uneven, None)] {
        let mut source = opened(&folder.write(name, file));
        assert_eq!(source.kind(), Kind::Clip { frames: known });
        for index in [3, 0, 4, 4, 1] {
            source.go_to(index).expect("a frame of the video");
            let frame = frame(source.as_mut());
            assert_eq!(frame.index, index, "{name}");
            let wanted = ((frames[index as usize][0] - 16) as f64 * 255.0 / 219.0).round() as u8;
            assert_near(pixel(&frame, 2, 1), [wanted; 3], 1);
        }
        source.go_to(4).expect("the last frame");
        frame(source.as_mut());
        assert_end(source.as_mut());
        assert_eq!(source.kind(), Kind::Clip { frames: Some(5) }, "known at the end");
        let error = source.go_to(5).expect_err("there are five frames");
        assert!(one_line(&error).contains("0 to 4"), "{error}");
    }
}

#[test]
fn y4m_that_is_cut_or_wrong_is_told_with_its_frame() {
    let folder = Folder::new("y4m_wrong");
    let whole = y4m("W4 H2 F25:1 C420", &[[90, 128, 128]; 2], [8, 2]);
    let mut source = opened(&folder.write("cut.y4m", &whole[..whole.len() - 5]));
    assert_eq!(source.kind(), Kind::Clip { frames: Some(2) });
    frame(source.as_mut());
    let error = failure(source.as_mut());
    assert!(error.contains("cut.y4m, frame 1") && error.contains("ends inside it"), "{error}");
    assert_eq!(source.faults(), 1);
    assert_end(source.as_mut());

    let odd = y4m("W4 H2 F0:0 It A3:2 C420", &[[90, 128, 128]], [8, 2]);
    let notices = frame(opened(&folder.write("odd.y4m", odd)).as_mut()).notices.join("; ");
    assert!(["frame rate", "3:2", "interlaced"].iter().all(|w| notices.contains(w)), "{notices}");

    for (header, words) in [
        ("W4 H2 F25:1 C411\n", "chroma C411"),
        ("W0 H2 F25:1\n", "got 0x2"),
        ("W4294967295 H4294967295 F25:1\n", "4294967295x4294967295"),
        ("W4 H2 F25\n", "header"),
        ("W4 H2", "ends in its header"),
    ] {
        let error = refused(&folder.write("wrong.y4m", format!("YUV4MPEG2 {header}")));
        assert!(error.contains("wrong.y4m") && error.contains(words), "{header}: {error}");
    }
}

#[test]
fn numbered_pictures_make_a_clip_and_a_gap_is_told() {
    let folder = Folder::new("numbered");
    for number in [7_u8, 8, 12, 100] {
        folder.flat(&format!("shot{number:02}.png"), [number, 0, 0]);
    }
    folder.flat("shot1.png", [1, 0, 0]);
    folder.flat("other03.png", [3, 0, 0]);
    let mut source = opened(&folder.at("shot%02d.png"));
    assert_eq!(source.kind(), Kind::Clip { frames: Some(4) });
    let mut told = Vec::new();
    for (index, red) in [7, 8, 12, 100].into_iter().enumerate() {
        let frame = frame(source.as_mut());
        assert_eq!((frame.index, pixel(&frame, 0, 0)[0]), (index as u64, red));
        assert_eq!(frame.shown_for, Some(Duration::from_millis(40)));
        told.extend(frame.notices.clone());
    }
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].contains("9 to 11 are missing") && told[1].contains("13 to 99 are missing"), "{told:?}");
    assert_end(source.as_mut());

    fs::write(folder.at("shot08.png"), "broken").expect("the picture is spoilt");
    let mut source = opened(&folder.at("shot*.png"));
    assert_eq!(source.kind(), Kind::Clip { frames: Some(5) });
    frame(source.as_mut());
    frame(source.as_mut());
    let error = failure(source.as_mut());
    assert!(error.contains("shot08.png"), "{error}");
    assert_eq!((pixel(&frame(source.as_mut()), 0, 0)[0], source.faults()), (12, 1));
}

#[test]
fn without_ffmpeg_a_video_says_what_to_install() {
    let folder = Folder::new("no_ffmpeg");
    let path = folder.write("clip.mp4", b"\0\0\0\x18ftypisom\0\0\0\0");
    let error = ffmpeg::Video::open(Path::new(&path), "no such program").expect_err("it is not there");
    let error = one_line(&error);
    assert!(
        error.contains("clip.mp4") && error.contains("install ffmpeg") && error.contains(".y4m"),
        "{error}"
    );
}

#[test]
fn a_video_is_told_from_a_picture_by_its_content() {
    let folder = Folder::new("video_by_content");
    let png = encoded(RgbImage::new(2, 2), ImageFormat::Png);
    for (name, bytes, video) in [
        ("a.mp4", b"\0\0\0\x18ftypisom\0\0\0\0".as_slice(), true),
        ("a", b"\0\0\0\x18ftypisom\0\0\0\0", true),
        ("a.heic", b"\0\0\0\x18ftypheic\0\0\0\0", false),
        ("a.bin", b"\x1a\x45\xdf\xa3\0\0\0\0\0\0\0\0", true),
        ("a.avi", b"RIFF\0\0\0\0AVI LIST", true),
        ("a.ts", b"\x47\0\0\0\0\0\0\0\0\0\0\0", true),
        ("b.mp4", &png, false),
        ("text.txt", b"hello, reader", false),
        ("empty.mp4", b"", false),
    ] {
        assert_eq!(ffmpeg::is_video(Path::new(&folder.write(name, bytes))), video, "{name}");
    }
}

/// A program that stands in for ffmpeg: it notes its arguments and does what `script` says.
#[cfg(unix)]
fn stand_in(folder: &Folder, script: &str) -> String {
    use std::os::unix::fs::PermissionsExt as _;
    let head = "#!/bin/sh\ncd \"$(dirname \"$0\")\"\necho \"$@\" >> arguments\necho $$ > process\n";
    let path = folder.write("stand-in", format!("{head}{script}\n"));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("the script may be run");
    path
}

#[cfg(unix)]
#[test]
fn other_videos_are_read_through_the_program() {
    let folder = Folder::new("ffmpeg");
    let frames: Vec<[u8; 3]> = (0..80).map(|i| [16 + 2 * i, 128, 128]).collect();
    folder.write("frames.y4m", y4m("W4 H2 F25:1 C420jpeg", &frames, [8, 2]));
    let program = stand_in(&folder, "cat frames.y4m");
    let path = folder.write("clip.mp4", b"\0\0\0\x18ftypisom\0\0\0\0");
    let mut source = ffmpeg::Video::open(Path::new(&path), &program).expect("the program answers");
    assert_eq!(source.kind(), Kind::Clip { frames: None });
    assert_eq!(source.name(), "clip.mp4");
    for index in 0..80 {
        let frame = frame(&mut source);
        assert_eq!((frame.index, frame.shown_for), (index, Some(Duration::from_millis(40))));
    }
    assert_end(&mut source);
    assert_end(&mut source);
    assert_eq!(source.kind(), Kind::Clip { frames: Some(80) });

    // Near frames are read over, far ones are jumped to.
    source.go_to(0).expect("the first frame");
    frame(&mut source);
    source.go_to(10).expect("a near frame");
    assert_eq!(frame(&mut source).index, 10);
    source.go_to(70).expect("a far frame");
    assert_eq!(frame(&mut source).index, 70);
    let arguments = fs::read_to_string(folder.at("arguments")).expect("the program was run");
    let runs: Vec<&str> = arguments.lines().collect();
    assert_eq!(runs.len(), 3, "{arguments}");
    assert!(!runs[1].contains("-ss") && runs[2].contains("-ss 2.790000"), "{arguments}");
}

#[cfg(unix)]
#[test]
fn the_program_is_ended_with_its_source_and_its_complaint_is_told() {
    let folder = Folder::new("ffmpeg_ends");
    folder.write("frames.y4m", y4m("W4 H2 F25:1 C420jpeg", &[[90, 128, 128]], [8, 2]));
    let path = folder.write("clip.mp4", b"\0\0\0\x18ftypisom\0\0\0\0");
    let program = stand_in(&folder, "cat frames.y4m; exec sleep 60");
    let mut source = ffmpeg::Video::open(Path::new(&path), &program).expect("the program answers");
    frame(&mut source);
    drop(source);
    let process = fs::read_to_string(folder.at("process")).expect("the program noted its number");
    assert!(!Path::new("/proc").join(process.trim()).exists(), "process {} still runs", process.trim());

    let program = stand_in(&folder, "echo 'moov atom not found' >&2; exit 1");
    let error = ffmpeg::Video::open(Path::new(&path), &program).expect_err("it refuses");
    assert!(one_line(&error).contains("says: moov atom not found"), "{error}");

    let program = stand_in(&folder, "cat frames.y4m; echo 'Invalid data' >&2; exit 1");
    let mut source = ffmpeg::Video::open(Path::new(&path), &program).expect("the program answers");
    frame(&mut source);
    let error = failure(&mut source);
    assert!(error.contains("frame 1") && error.contains("Invalid data"), "{error}");
    assert_end(&mut source);
}

#[test]
fn the_drawn_scene_repeats_itself_exactly_and_moves() {
    let mut source = opened("synthetic");
    assert_eq!(source.kind(), Kind::Clip { frames: None });
    let first = frame(source.as_mut());
    let second = frame(source.as_mut());
    assert_eq!((first.index, second.index, first.photo.size()), (0, 1, UVec2::new(320, 240)));
    let apart = |a: &Frame, b: &Frame| {
        let (a, b) = (pixels(a), pixels(b));
        a.iter().zip(b.iter()).filter(|(a, b)| a != b).count()
    };
    let moved = apart(&first, &second);
    assert!((100..60_000).contains(&moved), "{moved} samples differ from one frame to the next");
    source.go_to(0).expect("the first frame");
    assert_eq!(apart(&first, &frame(source.as_mut())), 0);
    source.go_to(u64::MAX).expect("any frame");
    assert_eq!(frame(source.as_mut()).index, u64::MAX);
}
