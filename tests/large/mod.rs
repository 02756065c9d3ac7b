//! Case C30: a picture that no texture holds, drawn row by row into a file when a test runs.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;

/// Width and height; decoded it takes 324 MB.
pub(crate) const SIZE: (u32, u32) = (12_000, 9_000);

/// Writes the picture as PNG: bands across, the right half darker.
pub(crate) fn draw(path: &Path) {
    let (width, height) = SIZE;
    let mut encoder = png::Encoder::new(BufWriter::new(File::create(path).expect("a file")), width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_compression(png::Compression::Fast);
    // Most rows are the same as the one above, so the file stays small.
    encoder.set_filter(png::Filter::Up);
    let mut writer = encoder.write_header().expect("a PNG header");
    let mut rows = writer.stream_writer().expect("rows");
    let bands = [40_u8, 200].map(|level| {
        let half = width as usize / 2;
        [[level, 90, 220 - level].repeat(half), [level / 2, 60, 110].repeat(half)].concat()
    });
    for y in 0..height as usize {
        rows.write_all(&bands[y / 1500 % 2]).expect("a row");
    }
    rows.finish().expect("the end of the file");
}
