//! Animated GIF, PNG and WebP: frames composed and disposed, times, and files that are cut.

use std::time::Duration;

use glam::UVec2;
use image::{ImageFormat, Rgb, RgbImage};
use wgattn::source::{Frame, Kind};

use super::{Folder, assert_end, assert_near, encoded, failure, frame, one_line, opened, pixel};

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
