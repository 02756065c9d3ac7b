//! Samples of cameras and video: ranges, matrices, layouts, and data that is not what it is declared to be.

use image::ImageFormat;
use wgattn::source::Source as _;
use wgattn::source::fake::Fake;
use wgattn::source::pixels::{Matrix, PixelFormat, Range, RawFrame};

use super::{
    Folder, assert_end, assert_near, at_once, encoded, failure, frame, opened, pixel, pixels, raw, slope,
    textbook, y4m, yuyv,
};

/// C35: limited range read as full is washed out.
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

/// C35: red of BT.601 and of BT.709.
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

/// C34: 1281 × 721 in YUYV and NV12.
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

/// C34: declared Motion JPEG, payload YUYV.
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

/// C34: truncated Motion JPEG and other bad frames.
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

/// C29, the way of a camera; the way to the screen is in tests/explorer_window.rs.
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
