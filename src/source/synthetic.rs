//! A moving scene drawn here, for machines without a camera, for demos and for tests.
//!
//! Six shapes, each with a colour and a texture of its own, move in their own cells of a 3 × 2 grid and never touch. Only
//! additions and products go into a picture, so frame `n` has the same samples on every machine.

use std::time::Duration;

use image::{Rgb, RgbImage};

use super::{DEFAULT_FRAME_TIME, Frame, Kind, Next, Source, SourceError};
use crate::vision::image::Photo;

/// Width in pixels.
pub const WIDTH: u32 = 320;

/// Height in pixels.
pub const HEIGHT: u32 = 240;

/// Radius of a shape in pixels.
const RADIUS: f64 = 26.0;

/// Farthest that a shape strays from the middle of its cell, in pixels: a cell is 106 × 120.
const STRAY: f64 = 22.0;

/// A shape by its distance function: negative inside, in pixels, exact near the edge.
struct Shape {
    distance: fn(f64, f64) -> f64,
    /// Texture in −1..1, fixed to the shape.
    texture: fn(f64, f64) -> f64,
    colour: [f64; 3],
    /// Frames of one round, across and down.
    periods: (u64, u64),
}

/// √½, to turn axes by an eighth.
const DIAGONAL: f64 = std::f64::consts::FRAC_1_SQRT_2;

const SHAPES: [Shape; 6] = [
    Shape {
        distance: |x, y| (x * x + y * y).sqrt() - RADIUS,
        texture: |_, y| stripes(y, 6.0),
        colour: [205.0, 45.0, 40.0],
        periods: (180, 260),
    },
    Shape {
        distance: |x, y| x.abs().max(y.abs()) - 0.85 * RADIUS,
        texture: |x, y| stripes(x, 9.0) * stripes(y, 9.0),
        colour: [40.0, 160.0, 60.0],
        periods: (240, 150),
    },
    Shape {
        distance: |x, y| (x.abs() + y.abs()) * DIAGONAL - 0.75 * RADIUS,
        texture: |x, _| stripes(x, 5.0),
        colour: [50.0, 80.0, 205.0],
        periods: (140, 300),
    },
    Shape {
        distance: |x, y| ((x * x + y * y).sqrt() - 0.75 * RADIUS).abs() - 0.25 * RADIUS,
        texture: |x, y| stripes((x + y) * DIAGONAL, 8.0),
        colour: [225.0, 185.0, 40.0],
        periods: (280, 190),
    },
    Shape {
        distance: |x, y| {
            let bar = |a: f64, b: f64| (a.abs() - RADIUS).max(b.abs() - 0.3 * RADIUS);
            bar(x, y).min(bar(y, x))
        },
        texture: |x, y| stripes((x - y) * DIAGONAL, 6.0),
        colour: [190.0, 60.0, 170.0],
        periods: (160, 220),
    },
    Shape {
        distance: |x, y| (0.5 * y + 0.866 * x.abs() - 0.45 * RADIUS).max(-y - 0.45 * RADIUS),
        texture: |x, y| stripes(x, 7.0) * stripes(y, 5.0),
        colour: [45.0, 175.0, 190.0],
        periods: (200, 170),
    },
];

/// −1..1 and back, once per `period` pixels, smooth.
fn stripes(at: f64, period: f64) -> f64 {
    let phase = at / period - (at / period).floor();
    2.0 * ease(phase) - 1.0
}

/// Up from 0 to 1 and down again while `phase` goes from 0 to 1, slow at both ends.
fn ease(phase: f64) -> f64 {
    let rise = 1.0 - (2.0 * phase - 1.0).abs();
    rise * rise * (3.0 - 2.0 * rise)
}

/// Frame `index` of the scene, [`WIDTH`] × [`HEIGHT`].
pub fn picture(index: u64) -> RgbImage {
    let cell = (f64::from(WIDTH) / 3.0, f64::from(HEIGHT) / 2.0);
    let centres: Vec<(f64, f64)> = SHAPES
        .iter()
        .enumerate()
        .map(|(i, shape)| {
            let wave = |period: u64| {
                // A start of its own for each, so that they do not move as one.
                let frame = index.wrapping_add(37 * i as u64) % period;
                STRAY * (2.0 * ease(frame as f64 / period as f64) - 1.0)
            };
            let (column, row) = ((i % 3) as f64, (i / 3) as f64);
            ((column + 0.5) * cell.0 + wave(shape.periods.0), (row + 0.5) * cell.1 + wave(shape.periods.1))
        })
        .collect();
    RgbImage::from_fn(WIDTH, HEIGHT, |column, row| {
        let (x, y) = (f64::from(column) + 0.5, f64::from(row) + 0.5);
        let grain = 4.0 * stripes(x + 0.3 * y, 23.0) + 3.0 * stripes(y - 0.2 * x, 17.0);
        let slope = 20.0 * y / f64::from(HEIGHT);
        let mut colour = [96.0 + slope + grain, 98.0 + slope + grain, 104.0 + grain];
        // Only the shape of the pixel's cell can be here: none leaves its cell.
        let i = (x / cell.0) as usize % 3 + 3 * ((y / cell.1) as usize).min(1);
        let (shape, centre) = (&SHAPES[i], centres[i]);
        let (dx, dy) = (x - centre.0, y - centre.1);
        let cover = (0.5 - (shape.distance)(dx, dy)).clamp(0.0, 1.0);
        if cover > 0.0 {
            let light = 1.0 + 0.3 * (shape.texture)(dx, dy);
            for (c, own) in colour.iter_mut().zip(shape.colour) {
                *c += cover * (own * light - *c);
            }
        }
        Rgb(colour.map(|c| c.round().clamp(0.0, 255.0) as u8))
    })
}

/// The scene as a source: an endless clip of 25 frames a second.
#[derive(Clone, Debug, Default)]
pub struct Synthetic {
    at: u64,
}

impl Synthetic {
    /// Starts with frame 0.
    pub fn new() -> Self {
        Self::default()
    }

    /// Time from frame to frame.
    pub const FRAME_TIME: Duration = DEFAULT_FRAME_TIME;
}

impl Source for Synthetic {
    fn name(&self) -> String {
        "synthetic scene".into()
    }

    fn kind(&self) -> Kind {
        Kind::Clip { frames: None }
    }

    fn next(&mut self) -> Result<Next, SourceError> {
        let index = self.at;
        self.at = self.at.wrapping_add(1);
        let photo = Photo::from_rgb8("synthetic scene", WIDTH, HEIGHT, picture(index).into_raw())?;
        Ok(Next::Frame(Frame { photo, index, shown_for: Some(Self::FRAME_TIME), notices: Vec::new() }))
    }

    fn go_to(&mut self, index: u64) -> Result<(), SourceError> {
        self.at = index;
        Ok(())
    }
}
