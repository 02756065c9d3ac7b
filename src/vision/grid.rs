//! Tokens of a picture: square patches on a regular grid.
//!
//! The (working) picture is divided into cells of `stride` × `stride` pixels; every pixel belongs to exactly one
//! cell, and every cell is one token. A token's patch has `patch` × `patch` pixels and is centred on its cell; where
//! it reaches over the edge it repeats the nearest edge pixel. If there would be more tokens than allowed, the
//! picture is reduced by an area average first, so that stride and patch grow in photograph pixels.

use crate::words::counted;
use glam::{DVec2, UVec2};

/// Largest patch side in pixels: a patch vector then has 12 288 numbers.
pub const MAX_PATCH: u32 = 64;

/// Patch side in working pixels that suits photographs (see [`TokenGrid::plan`]).
pub const DEFAULT_PATCH: u32 = 8;

/// Stride in working pixels that suits photographs.
pub const DEFAULT_STRIDE: u32 = 4;

/// Most tokens of a still picture unless asked otherwise.
pub const DEFAULT_MAX_TOKENS: usize = 16_384;

/// Why a token grid cannot be made or asked. Every message is one line.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum GridError {
    /// The picture has a side of zero pixels.
    #[error("token grid of a {width}x{height} picture: expected at least 1x1 pixels")]
    EmptyPicture {
        /// Width in pixels.
        width: u32,
        /// Height in pixels.
        height: u32,
    },
    /// The patch side is zero or above [`MAX_PATCH`].
    #[error("patch side {patch}: expected 1 to {MAX_PATCH} pixels; choose a value in that range")]
    Patch {
        /// Side asked for.
        patch: u32,
    },
    /// The stride is zero.
    #[error("stride 0: expected at least 1 pixel; choose a larger stride")]
    Stride,
    /// No tokens are allowed.
    #[error("at most 0 tokens allowed: expected at least 1; raise the limit")]
    NoTokens,
    /// A pixel lies outside the picture.
    #[error("pixel ({x}, {y}) lies outside the picture: expected 0 <= x < {width} and 0 <= y < {height}")]
    Outside {
        /// Column asked for.
        x: u32,
        /// Row asked for.
        y: u32,
        /// Width in pixels.
        width: u32,
        /// Height in pixels.
        height: u32,
    },
    /// A token index is too large.
    #[error("token {token} does not exist: expected 0 <= token < {tokens}")]
    NoSuchToken {
        /// Index asked for.
        token: usize,
        /// Number of tokens.
        tokens: usize,
    },
}

/// Rectangle in photograph pixels, `min` inside, `max` outside.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PixelRect {
    /// Upper left corner.
    pub min: DVec2,
    /// Lower right corner.
    pub max: DVec2,
}

impl PixelRect {
    /// Middle of the rectangle.
    pub fn centre(&self) -> DVec2 {
        (self.min + self.max) * 0.5
    }
}

/// Where the tokens of one picture lie. Token index = row · cols + col, rows from the top.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenGrid {
    photo_size: UVec2,
    working_size: UVec2,
    patch: u32,
    stride: u32,
    rows: usize,
    cols: usize,
}

impl TokenGrid {
    /// Plans tokens of `patch` × `patch` working pixels every `stride` working pixels, at most `max_tokens`.
    ///
    /// Without the limit a picture has ⌈width/stride⌉ · ⌈height/stride⌉ tokens. Above the limit the picture is
    /// reduced by the smallest factor f > 1 with which the tokens fit. A picture smaller than a patch, even 1×1, works: edge pixels
    /// repeat. With `stride` > `patch` the pixels between patches belong to a token but do not shape its features.
    ///
    /// Errors: every variant of [`GridError`] except `Outside` and `NoSuchToken`.
    pub fn plan(size: UVec2, patch: u32, stride: u32, max_tokens: usize) -> Result<Self, GridError> {
        if size.min_element() == 0 {
            return Err(GridError::EmptyPicture { width: size.x, height: size.y });
        }
        if patch == 0 || patch > MAX_PATCH {
            return Err(GridError::Patch { patch });
        }
        if stride == 0 {
            return Err(GridError::Stride);
        }
        if max_tokens == 0 {
            return Err(GridError::NoTokens);
        }
        let tokens = |s: UVec2| u64::from(s.x.div_ceil(stride)) * u64::from(s.y.div_ceil(stride));
        let fits = |s: UVec2| tokens(s) <= max_tokens as u64;
        let reduced = |factor: f64| (size.as_dvec2() / factor).floor().max(DVec2::ONE).as_uvec2();
        let mut working_size = size;
        if !fits(size) {
            // The token count never grows with the factor, so bisection finds the smallest one that fits.
            let (mut low, mut high) = (1.0, f64::from(size.max_element()));
            for _ in 0..60 {
                let middle = 0.5 * (low + high);
                if fits(reduced(middle)) { high = middle } else { low = middle }
            }
            working_size = reduced(high);
        }
        let cells = |side: u32| side.div_ceil(stride) as usize;
        let (rows, cols) = (cells(working_size.y), cells(working_size.x));
        Ok(Self { photo_size: size, working_size, patch, stride, rows, cols })
    }

    /// A grid of `rows` × `cols` equal cells over a picture, for tokens that come from elsewhere. A working pixel is a cell.
    ///
    /// Errors: [`GridError::EmptyPicture`] for a picture or grid without any.
    pub fn over(size: UVec2, rows: usize, cols: usize) -> Result<Self, GridError> {
        let working_size = UVec2::new(cols as u32, rows as u32);
        if size.min_element() == 0 || working_size.min_element() == 0 {
            return Err(GridError::EmptyPicture { width: size.x, height: size.y });
        }
        Ok(Self { photo_size: size, working_size, patch: 1, stride: 1, rows, cols })
    }

    /// Rows of tokens.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Columns of tokens.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Number of tokens n = rows · cols.
    pub fn tokens(&self) -> usize {
        self.rows * self.cols
    }

    /// Patch side in working pixels.
    pub fn patch(&self) -> u32 {
        self.patch
    }

    /// Stride in working pixels.
    pub fn stride(&self) -> u32 {
        self.stride
    }

    /// Length p = patch · patch · 3 of a patch vector.
    pub fn patch_len(&self) -> usize {
        self.patch as usize * self.patch as usize * 3
    }

    /// Size of the photograph in pixels.
    pub fn photo_size(&self) -> UVec2 {
        self.photo_size
    }

    /// Size of the working picture in pixels, to be asked of `Photo::working`.
    pub fn working_size(&self) -> UVec2 {
        self.working_size
    }

    /// Photograph pixels per working pixel along x and y (1 unless the grid grew; the two differ by rounding).
    pub fn factor(&self) -> DVec2 {
        self.photo_size.as_dvec2() / self.working_size.as_dvec2()
    }

    /// Stride in photograph pixels along x and y.
    pub fn effective_stride(&self) -> DVec2 {
        self.factor() * f64::from(self.stride)
    }

    /// Patch side in photograph pixels along x and y.
    pub fn effective_patch(&self) -> DVec2 {
        self.factor() * f64::from(self.patch)
    }

    /// Whether stride and patch grew (the picture was reduced) to keep to the token limit.
    pub fn grew(&self) -> bool {
        self.working_size != self.photo_size
    }

    /// What to tell the user when the grid grew.
    pub fn notice(&self) -> Option<String> {
        self.grew().then(|| {
            let (stride, patch) = (self.effective_stride(), self.effective_patch());
            format!(
                "picture reduced from {}x{} to {}x{} to keep to {}: stride is {:.1} and patch {:.1} photograph pixels (allow more tokens for finer ones)",
                self.photo_size.x,
                self.photo_size.y,
                self.working_size.x,
                self.working_size.y,
                counted(self.tokens(), "token", "tokens"),
                stride.max_element(),
                patch.max_element()
            )
        })
    }

    /// The token whose cell holds photograph pixel `pixel` = (x, y).
    ///
    /// Errors: [`GridError::Outside`].
    pub fn token_at(&self, pixel: UVec2) -> Result<usize, GridError> {
        if pixel.cmpge(self.photo_size).any() {
            let (UVec2 { x, y }, UVec2 { x: width, y: height }) = (pixel, self.photo_size);
            return Err(GridError::Outside { x, y, width, height });
        }
        // Integer arithmetic: the pixel's middle (2x + 1)/2 times working/photo, without rounding.
        let cell = |at: u32, photo: u32, working: u32| {
            let working_pixel = (2 * u64::from(at) + 1) * u64::from(working) / (2 * u64::from(photo));
            (working_pixel / u64::from(self.stride)) as usize
        };
        let row = cell(pixel.y, self.photo_size.y, self.working_size.y);
        let col = cell(pixel.x, self.photo_size.x, self.working_size.x);
        Ok(row * self.cols + col)
    }

    /// The token's cell in photograph pixels. Cells of all tokens tile the photograph; the last ones may be cut.
    ///
    /// Errors: [`GridError::NoSuchToken`].
    pub fn token_rect(&self, token: usize) -> Result<PixelRect, GridError> {
        self.check(token)?;
        let cell = UVec2::new((token % self.cols) as u32, (token / self.cols) as u32);
        let min = cell * self.stride;
        let max = (min + UVec2::splat(self.stride)).min(self.working_size);
        let factor = self.factor();
        Ok(PixelRect { min: min.as_dvec2() * factor, max: max.as_dvec2() * factor })
    }

    /// First row and column of a token's patch in working pixels; may be negative or beyond the edge, where the
    /// nearest edge pixel repeats.
    ///
    /// Errors: [`GridError::NoSuchToken`].
    pub fn patch_origin(&self, token: usize) -> Result<(i64, i64), GridError> {
        self.check(token)?;
        let (stride, patch) = (i64::from(self.stride), i64::from(self.patch));
        let offset = (stride - patch).div_euclid(2);
        let (row, col) = (token / self.cols, token % self.cols);
        Ok((row as i64 * stride + offset, col as i64 * stride + offset))
    }

    fn check(&self, token: usize) -> Result<(), GridError> {
        let tokens = self.tokens();
        if token < tokens { Ok(()) } else { Err(GridError::NoSuchToken { token, tokens }) }
    }
}
