//! Sources of pictures: what they give, in what order and when, and what they say of data that is wrong.

use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use glam::UVec2;
use image::{DynamicImage, GrayImage, ImageFormat, Rgb, RgbImage};
use wgattn::source::fake::{Act, Fake};
use wgattn::source::pixels::{Matrix, PixelFormat, Range, RawFrame};
use wgattn::source::synthetic::Synthetic;
use wgattn::source::{Frame, Kind, Next, Player, Source, SourceError, ffmpeg, open};

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

// Samples.

#[test]
fn limited_range_is_stretched_and_full_range_is_left_alone() {
    for (code, limited) in [(0, 0), (16, 0), (126, 128), (235, 255), (255, 255)] {
        let mut raw = raw(PixelFormat::Yuyv, 4, 2, yuyv(4, 2, [code, 128, 128]));
        let mut source = Fake::new("camera", [at_once(raw.clone())]);
        assert_eq!(pixel(&frame(&mut source), 3, 1), [limited; 3], "limited code {code}");
        raw.range = Range::Full;
        let mut source = Fake::new("camera", [at_once(raw)]);
        assert_eq!(pixel(&frame(&mut source), 0, 0), [code; 3], "full code {code}");
    }
}

#[test]
fn the_matrix_decides_about_red() {
    let (red601, red709) = ([81, 90, 240], [63, 102, 240]);
    for (ycc, matrix, (kr, kb)) in [
        (red601, Matrix::Bt601, (0.299, 0.114)),
        (red709, Matrix::Bt709, (0.2126, 0.0722)),
        (red601, Matrix::Bt709, (0.2126, 0.0722)),
        (red709, Matrix::Bt601, (0.299, 0.114)),
    ] {
        let mut raw = raw(PixelFormat::Yuyv, 2, 1, yuyv(2, 1, ycc));
        raw.matrix = matrix;
        let got = pixel(&frame(&mut Fake::new("camera", [at_once(raw)])), 0, 0);
        assert_near(got, textbook(ycc, kr, kb), 1);
        let is_red = got[0] >= 253 && got[1] <= 2 && got[2] <= 2;
        assert_eq!(
            is_red,
            (ycc == red601) == (matrix == Matrix::Bt601),
            "{ycc:?} by {matrix:?} gives {got:?}"
        );
    }
}

#[test]
fn video_is_bt601_below_720_lines_and_bt709_from_there_on() {
    let folder = Folder::new("matrix");
    for (height, ycc) in [(576, [81, 90, 240]), (720, [63, 102, 240])] {
        let file = y4m(&format!("W2 H{height} F25:1 C444"), &[ycc], [2 * height; 2]);
        let mut source = opened(&folder.write("red.y4m", file));
        assert_near(pixel(&frame(source.as_mut()), 1, 1), [255, 0, 0], 2);
    }
}

#[test]
fn odd_sizes_and_padded_rows_keep_every_pixel_in_its_place() {
    let (width, height) = (1281_u32, 721_u32);
    let luma = |x: usize, y: usize| (16 + (x * 3 + y * 7) % 200) as u8;
    let (w, h, pairs) = (width as usize, height as usize, 641);
    // Grey everywhere but in the last column of pairs, which is the odd pixel's own.
    let chroma = |pair: usize| if pair + 1 == pairs { [90, 200] } else { [128, 128] };
    let wanted = |x: usize, y: usize| {
        let [cb, cr] = chroma(x / 2);
        textbook([luma(x, y), cb, cr], 0.299, 0.114)
    };
    let yuyv = |stride: usize| -> Vec<u8> {
        let row = |y: usize| {
            let pair = move |p: usize| {
                let [cb, cr] = chroma(p);
                [luma(2 * p, y), cb, luma(2 * p + 1, y), cr]
            };
            let mut row: Vec<u8> = (0..pairs).flat_map(pair).collect();
            row.resize(stride, 0xaa);
            row
        };
        (0..h).flat_map(row).collect()
    };
    let nv12 = |stride: usize| -> Vec<u8> {
        let padded = |mut row: Vec<u8>| {
            row.resize(stride, 0xaa);
            row
        };
        let luma = (0..h).flat_map(|y| padded((0..w).map(|x| luma(x, y)).collect()));
        luma.chain((0..h.div_ceil(2)).flat_map(|_| padded((0..pairs).flat_map(chroma).collect()))).collect()
    };
    let tight_nv12: Vec<u8> = (0..h)
        .flat_map(|y| (0..w).map(move |x| luma(x, y)))
        .chain((0..h.div_ceil(2)).flat_map(|_| (0..pairs).flat_map(chroma)))
        .collect();
    let cases = [
        ("YUYV", PixelFormat::Yuyv, None, yuyv(4 * pairs)),
        ("padded YUYV", PixelFormat::Yuyv, Some(2600), yuyv(2600)),
        ("padded NV12", PixelFormat::Nv12, Some(1344), nv12(1344)),
        ("NV12", PixelFormat::Nv12, None, tight_nv12),
    ];
    for (what, format, stride, bytes) in cases {
        let mut raw = raw(format, width, height, bytes);
        raw.stride = stride;
        let picture = pixels(&frame(&mut Fake::new(what, [at_once(raw)])));
        assert_eq!(picture.dimensions(), (width, height), "{what}");
        for (x, y, got) in picture.enumerate_pixels() {
            let wanted = wanted(x as usize, y as usize);
            let near = got.0.iter().zip(wanted).all(|(g, w)| g.abs_diff(w) <= 1);
            assert!(near, "{what} at {x}, {y}: expected {wanted:?}, got {:?}", got.0);
        }
    }
    // Rows of 2 · width bytes leave the odd pixel without its Cr; it takes the one before.
    let short: Vec<u8> =
        (0..h).flat_map(|y| yuyv(4 * pairs)[2564 * y..2564 * y + 2562].to_vec()).take(2562 * 3).collect();
    let source = &mut Fake::new("short rows", [at_once(raw(PixelFormat::Yuyv, width, 3, short))]);
    assert_near(pixel(&frame(source), 1280, 1), textbook([luma(1280, 1), 128, 128], 0.299, 0.114), 1);
}

#[test]
fn motion_jpeg_that_is_yuyv_is_read_as_yuyv_and_says_so() {
    let raw = raw(PixelFormat::Mjpeg, 8, 6, yuyv(8, 6, [81, 90, 240]));
    let frame = frame(&mut Fake::new("camera", [at_once(raw)]));
    assert_near(pixel(&frame, 5, 5), [255, 0, 0], 2);
    assert_eq!(frame.notices.len(), 1, "{:?}", frame.notices);
    assert!(frame.notices[0].contains("declared as Mjpeg, but holds Yuyv"), "{:?}", frame.notices);
}

#[test]
fn yuyv_that_is_motion_jpeg_is_read_as_jpeg_and_says_so() {
    let jpeg = encoded(slope(64, 48), ImageFormat::Jpeg);
    let frame = frame(&mut Fake::new("camera", [at_once(raw(PixelFormat::Yuyv, 64, 48, jpeg))]));
    assert_near(pixel(&frame, 30, 20), slope(64, 48).get_pixel(30, 20).0, 8);
    assert!(frame.notices[0].contains("declared as Yuyv, but holds Mjpeg"), "{:?}", frame.notices);
}

#[test]
fn motion_jpeg_without_its_huffman_tables_is_read() {
    let jpeg = encoded(slope(64, 48), ImageFormat::Jpeg);
    let mut bare = jpeg[..2].to_vec();
    let mut at = 2;
    // Segments up to the scan; what follows is not looked at.
    while jpeg[at + 1] != 0xda {
        let length = 2 + usize::from(u16::from_be_bytes([jpeg[at + 2], jpeg[at + 3]]));
        if jpeg[at + 1] != 0xc4 {
            bare.extend(&jpeg[at..at + length]);
        }
        at += length;
    }
    bare.extend(&jpeg[at..]);
    assert!(bare.len() < jpeg.len(), "the test removes the tables");
    let with = frame(&mut Fake::new("camera", [at_once(raw(PixelFormat::Mjpeg, 64, 48, jpeg))]));
    let without = frame(&mut Fake::new("camera", [at_once(raw(PixelFormat::Mjpeg, 64, 48, bare))]));
    assert_eq!(pixels(&with), pixels(&without));
}

#[test]
fn broken_frames_are_dropped_and_counted_and_the_camera_goes_on() {
    let jpeg = encoded(slope(64, 48), ImageFormat::Jpeg);
    let cut = jpeg[..jpeg.len() * 2 / 3].to_vec();
    let mut source = Fake::new(
        "camera",
        [
            at_once(raw(PixelFormat::Mjpeg, 64, 48, cut)),
            at_once(raw(PixelFormat::Mjpeg, 64, 48, vec![0x94; 100])),
            at_once(raw(PixelFormat::Yuyv, 64, 48, vec![16; 2 * 64 * 48 - 1])),
            at_once(raw(PixelFormat::Nv12, 64, 48, Vec::new())),
            at_once(RawFrame { stride: Some(100), ..raw(PixelFormat::Yuyv, 64, 48, vec![16; 9000]) }),
            at_once(raw(PixelFormat::Yuyv, 0, 48, Vec::new())),
            at_once(raw(PixelFormat::Mjpeg, 64, 48, jpeg)),
        ],
    );
    for (index, words) in
        ["truncated", "beginning [94, 94, 94, 94]", "6144 bytes", "4608 bytes", "128 bytes", "0x48"]
            .iter()
            .enumerate()
    {
        let error = failure(&mut source);
        assert!(
            error.contains(&format!("frame {index} of camera")) && error.contains(words),
            "{words}: {error}"
        );
        assert_eq!(source.faults(), index as u64 + 1);
    }
    assert_eq!(frame(&mut source).index, 6);
    assert_eq!(source.faults(), 6);
    assert_end(&mut source);
}

// Files.

#[test]
fn a_grey_ramp_comes_through_every_lossless_format() {
    let folder = Folder::new("ramp");
    let ramp = GrayImage::from_fn(256, 4, |x, _| image::Luma([x as u8]));
    for (suffix, format) in [
        ("png", ImageFormat::Png),
        ("bmp", ImageFormat::Bmp),
        ("tiff", ImageFormat::Tiff),
        ("webp", ImageFormat::WebP),
        ("gif", ImageFormat::Gif),
    ] {
        let colour = DynamicImage::from(ramp.clone()).to_rgb8();
        let mut source = opened(&folder.write(&format!("ramp.{suffix}"), encoded(colour, format)));
        assert_eq!(source.kind(), Kind::Still);
        let frame = frame(source.as_mut());
        assert_eq!((frame.index, frame.shown_for), (0, None));
        for x in 0..256 {
            assert_near(pixel(&frame, x, 2), [x as u8; 3], 1);
        }
        assert_end(source.as_mut());
        source.go_to(0).expect("the one picture can be had again");
        let again = source.next();
        assert!(matches!(again, Ok(Next::Frame(_))), "{again:?}");
    }
}

#[test]
fn a_grey_ramp_comes_through_a_camera() {
    // Luma codes of full range are the grey values themselves.
    let bytes = (0..=255_u8).step_by(2).flat_map(|y| [y, 128, y + 1, 128]).collect();
    let raw = RawFrame { range: Range::Full, ..raw(PixelFormat::Yuyv, 256, 1, bytes) };
    let frame = frame(&mut Fake::new("camera", [at_once(raw)]));
    for x in 0..256 {
        assert_near(pixel(&frame, x, 0), [x as u8; 3], 1);
    }
}

#[test]
fn pictures_longer_than_8192_keep_their_size_and_say_how_they_are_shown() {
    let folder = Folder::new("large");
    for (width, height) in [(8193, 3), (3, 20_000)] {
        let path = folder.write("large.png", encoded(GrayImage::new(width, height), ImageFormat::Png));
        let frame = frame(opened(&path).as_mut());
        assert_eq!(frame.photo.size(), UVec2::new(width, height));
        let notice = frame.photo.display(8192).notice().expect("it is shown reduced");
        assert!(notice.starts_with("shown at 1:"), "{notice}");
    }
}

#[test]
fn all_eight_orientations_are_turned_upright() {
    let folder = Folder::new("orientation");
    // Where the stored picture has the corner that is shown at the upper left.
    let corners = [(0, 0), (1, 0), (1, 1), (0, 1), (0, 0), (0, 1), (1, 1), (1, 0)];
    for (orientation, (right, bottom)) in (1_u16..).zip(corners) {
        let stored = RgbImage::from_fn(64, 32, |x, y| {
            let in_corner = (x < 16) == (right == 0) && !(16..48).contains(&x) && (y < 16) == (bottom == 0);
            if in_corner { Rgb([230, 20, 20]) } else { Rgb([120, 120, 120]) }
        });
        let jpeg = encoded(stored, ImageFormat::Jpeg);
        let mut exif = b"\xff\xe1\x00\x22Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01".to_vec();
        exif.extend(orientation.to_be_bytes());
        exif.extend([0; 6]);
        let file = [&jpeg[..2], &exif, &jpeg[2..]].concat();
        let frame = frame(opened(&folder.write("turned.jpg", file)).as_mut());
        let size = if orientation < 5 { UVec2::new(64, 32) } else { UVec2::new(32, 64) };
        assert_eq!(frame.photo.size(), size, "orientation {orientation}");
        assert_near(pixel(&frame, 4, 4), [230, 20, 20], 25);
        for (x, y) in [(size.x - 4, 4), (4, size.y - 4), (size.x - 4, size.y - 4)] {
            assert_near(pixel(&frame, x, y), [120; 3], 25);
        }
    }
}

#[test]
fn a_folder_is_gone_through_in_natural_order_past_a_corrupt_picture() {
    let folder = Folder::new("folder");
    for (name, red) in [("10.png", 10), ("2.png", 2), ("1.PNG", 1)] {
        folder.flat(name, [red, 0, 0]);
    }
    folder.write("3.png", b"\x89PNG\r\n\x1a\n broken");
    folder.write("notes.txt", "no picture");
    let mut source = opened(&folder.0.display().to_string());
    assert_eq!(source.kind(), Kind::Folder { count: 4 });
    assert_eq!(source.name(), "folder");
    let mut reds = Vec::new();
    for _ in 0..2 {
        let frame = frame(source.as_mut());
        assert_eq!(frame.shown_for, None);
        reds.push(pixel(&frame, 0, 0)[0]);
    }
    let error = failure(source.as_mut());
    assert!(error.contains("3.png"), "{error}");
    let last = frame(source.as_mut());
    reds.push(pixel(&last, 0, 0)[0]);
    assert_eq!((reds, last.index), (vec![1, 2, 10], 3));
    assert_end(source.as_mut());

    source.go_to(1).expect("the second picture");
    assert_eq!(pixel(&frame(source.as_mut()), 0, 0)[0], 2);
    let error = source.go_to(4).expect_err("there are four");
    assert!(one_line(&error).contains("0 to 3"), "{error}");
}

#[test]
fn names_that_lead_nowhere_are_refused_with_a_remedy() {
    let folder = Folder::new("nowhere");
    let empty = folder.at("empty");
    fs::create_dir(&empty).expect("an empty folder");
    for (what, words) in [
        (empty.as_str(), "no pictures there"),
        ("no such file.png", "check the path"),
        (&folder.at("%04d.png"), "no pictures there"),
        (&folder.at("*.jpg"), "no pictures there"),
        (&folder.write("text.png", "hello"), "not a picture"),
        ("screen:1,2", "X,Y,WIDTHxHEIGHT"),
    ] {
        let error = refused(what);
        assert!(error.contains(words), "{what}: {error}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_device_that_is_no_camera_is_refused() {
    for device in ["camera:/dev/null", "camera:63", "camera:/no/such/device"] {
        let error = refused(device);
        assert!(error.contains("cannot read camera /") && error.contains("; "), "{device}: {error}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn the_screen_is_read_where_there_is_one_and_otherwise_said_to_be_missing() {
    if std::env::var_os("DISPLAY").is_none_or(|display| display.is_empty()) {
        let error = refused("screen");
        assert!(error.contains("DISPLAY is not set") || error.contains("Wayland"), "{error}");
        return;
    }
    let mut source = opened("screen:3,5,40x20");
    assert_eq!(source.kind(), Kind::Live);
    for index in 0..2 {
        let frame = frame(source.as_mut());
        assert_eq!((frame.index, frame.photo.size()), (index, UVec2::new(40, 20)));
    }
    let error = refused("screen:0,0,60000x20");
    assert!(error.contains("expected a part of the screen"), "{error}");
}

// Animations.

const RED: [u8; 3] = [255, 0, 0];
const GREEN: [u8; 3] = [0, 255, 0];
const BLUE: [u8; 3] = [0, 0, 255];
const WHITE: [u8; 3] = [255; 3];

/// 4 × 2 pixels: red everywhere; blue on the left half, disposed to `dispose`; green on one pixel at 3, 1. No times.
fn gif(dispose: gif::DisposalMethod) -> Vec<u8> {
    let mut bytes = Vec::new();
    let palette = [RED, GREEN, BLUE].concat();
    let mut encoder = gif::Encoder::new(&mut bytes, 4, 2, &palette).expect("a GIF header");
    let mut add = |left, top, width: u16, height: u16, colour: u8, dispose| {
        let frame = gif::Frame {
            left,
            top,
            width,
            height,
            dispose,
            buffer: vec![colour; usize::from(width * height)].into(),
            ..gif::Frame::default()
        };
        encoder.write_frame(&frame).expect("a GIF frame");
    };
    add(0, 0, 4, 2, 0, gif::DisposalMethod::Keep);
    add(0, 0, 2, 2, 2, dispose);
    add(3, 1, 1, 1, 1, gif::DisposalMethod::Keep);
    drop(encoder);
    bytes
}

fn apng(dispose: png::DisposeOp) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, 4, 2);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_animated(3, 0).expect("an animation");
    encoder.set_frame_delay(0, 1).expect("no time");
    let mut writer = encoder.write_header().expect("a PNG header");
    let mut add = |left, top, width: u32, height: u32, colour: [u8; 3], dispose| {
        writer.set_frame_dimension(width, height).expect("a size");
        writer.set_frame_position(left, top).expect("a place");
        writer.set_dispose_op(dispose).expect("a disposal");
        writer.write_image_data(&colour.repeat((width * height) as usize)).expect("an APNG frame");
    };
    add(0, 0, 4, 2, RED, png::DisposeOp::None);
    add(0, 0, 2, 2, BLUE, dispose);
    add(3, 1, 1, 1, GREEN, png::DisposeOp::None);
    writer.finish().expect("the end of the file");
    bytes
}

/// Animated WebP around pictures that are encoded one by one. Offsets are even by its definition.
fn webp(background_after_second: bool) -> Vec<u8> {
    let chunk = |name: &[u8; 4], data: &[u8]| {
        let mut chunk = [name.as_slice(), &(data.len() as u32).to_le_bytes(), data].concat();
        chunk.resize(chunk.len().next_multiple_of(2), 0);
        chunk
    };
    let u24 = |x: u32| x.to_le_bytes()[..3].to_vec();
    let frame = |left: u32, top: u32, width: u32, height: u32, colour: [u8; 3], dispose: bool| {
        let still = encoded(RgbImage::from_pixel(width, height, Rgb(colour)), ImageFormat::WebP);
        let parts =
            [u24(left / 2), u24(top / 2), u24(width - 1), u24(height - 1), u24(0), vec![u8::from(dispose)]];
        // After "RIFF", its length and "WEBP" comes the one chunk of a still picture.
        chunk(b"ANMF", &[parts.concat(), still[12..].to_vec()].concat())
    };
    let body = [
        b"WEBP".to_vec(),
        chunk(b"VP8X", &[vec![0x12, 0, 0, 0], u24(3), u24(1)].concat()),
        chunk(b"ANIM", &[0; 6]),
        frame(0, 0, 4, 2, RED, false),
        frame(0, 0, 2, 2, BLUE, background_after_second),
        frame(2, 0, 1, 1, GREEN, false),
    ];
    chunk(b"RIFF", &body.concat())
}

/// Frame by frame, what stands at two places: one inside the second frame, one that the third draws.
fn assert_frames(path: &str, third: (u32, u32), after_disposal: [u8; 3], most: u8) {
    let mut source = opened(path);
    assert_eq!(source.kind(), Kind::Clip { frames: Some(3) }, "{path}");
    let wanted = [(RED, RED), (BLUE, RED), (after_disposal, GREEN)];
    let check = |index: usize, frame: &Frame| {
        assert_eq!(frame.index, index as u64);
        assert_eq!(frame.photo.size(), UVec2::new(4, 2), "{path}");
        assert_eq!(
            frame.shown_for,
            Some(Duration::from_millis(100)),
            "a time of zero counts as 100 ms: {path}"
        );
        let (inside, drawn) = wanted[index];
        assert_near(pixel(frame, 1, 1), inside, most);
        assert_near(pixel(frame, third.0, third.1), drawn, most);
        assert_near(pixel(frame, 3, 0), RED, most);
    };
    (0..3).for_each(|index| check(index, &frame(source.as_mut())));
    assert_end(source.as_mut());
    // Back and forth: frames are composed from the first one on.
    for index in [1, 0, 2] {
        source.go_to(index).expect("a frame of the animation");
        check(index as usize, &frame(source.as_mut()));
    }
    let error = source.go_to(3).expect_err("there are three frames");
    assert!(one_line(&error).contains("0 to 2"), "{error}");
}

#[test]
fn gif_frames_are_composed_and_disposed() {
    let folder = Folder::new("gif");
    for (name, dispose, after) in [
        ("keep.gif", gif::DisposalMethod::Keep, BLUE),
        ("previous.gif", gif::DisposalMethod::Previous, RED),
        ("background.gif", gif::DisposalMethod::Background, WHITE),
    ] {
        assert_frames(&folder.write(name, gif(dispose)), (3, 1), after, 0);
    }
}

#[test]
fn apng_frames_are_composed_and_disposed() {
    let folder = Folder::new("apng");
    for (name, dispose, after) in [
        ("keep.png", png::DisposeOp::None, BLUE),
        ("previous.png", png::DisposeOp::Previous, RED),
        ("background.png", png::DisposeOp::Background, WHITE),
    ] {
        assert_frames(&folder.write(name, apng(dispose)), (3, 1), after, 0);
    }
}

#[test]
fn webp_frames_are_composed_and_disposed() {
    let folder = Folder::new("webp");
    // The decoder blends opaque pixels to 254 instead of 255.
    assert_frames(&folder.write("keep.webp", webp(false)), (2, 0), BLUE, 1);
    assert_frames(&folder.write("background.webp", webp(true)), (2, 0), WHITE, 1);
}

#[test]
fn an_animation_of_one_frame_is_a_still() {
    let folder = Folder::new("one_frame");
    let still = encoded(RgbImage::from_pixel(4, 2, Rgb(RED)), ImageFormat::Gif);
    assert_eq!(opened(&folder.write("one.gif", still)).kind(), Kind::Still);
}

#[test]
fn an_animation_that_cannot_be_composed_shows_its_first_picture_and_says_so() {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, 2, 1);
    encoder.set_depth(png::BitDepth::Sixteen);
    encoder.set_animated(2, 0).expect("an animation");
    let mut writer = encoder.write_header().expect("a PNG header");
    (0..2).for_each(|_| writer.write_image_data(&[255; 4]).expect("a frame of 16 bits"));
    writer.finish().expect("the end of the file");
    let mut source = opened(&Folder::new("deep").write("deep.png", bytes));
    assert_eq!(source.kind(), Kind::Still);
    let frame = frame(source.as_mut());
    assert_eq!(pixel(&frame, 1, 0), WHITE);
    assert!(frame.notices[0].contains("only the first picture"), "{:?}", frame.notices);
}

#[test]
fn an_animation_that_is_cut_gives_what_there_is_and_then_says_so() {
    let folder = Folder::new("cut_gif");
    let whole = gif(gif::DisposalMethod::Keep);
    let mut source = opened(&folder.write("cut.gif", &whole[..whole.len() - 6]));
    assert!(matches!(source.kind(), Kind::Clip { .. }));
    frame(source.as_mut());
    frame(source.as_mut());
    let error = failure(source.as_mut());
    assert!(error.contains("cut.gif, frame 2"), "{error}");
    assert_eq!(source.faults(), 1);
    assert_end(source.as_mut());
}

// Video.

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

// The drawn scene.

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

// The player.

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
