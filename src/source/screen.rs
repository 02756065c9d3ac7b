//! The screen, or a part of it, through X11.

use std::time::Instant;

use x11rb::connection::Connection as _;
use x11rb::protocol::xproto::{ConnectionExt as _, ImageFormat, ImageOrder};
use x11rb::rust_connection::RustConnection;

use super::{DEFAULT_FRAME_TIME, Frame, Kind, Next, Source, SourceError};
use crate::vision::image::Photo;

/// A region of the screen, 25 times a second at most.
#[derive(Debug)]
pub(super) struct Screen {
    connection: RustConnection,
    root: u32,
    region: Region,
    layout: Layout,
    index: u64,
    due: Instant,
}

#[derive(Clone, Copy, Debug)]
struct Region {
    x: i16,
    y: i16,
    width: u16,
    height: u16,
}

/// Where the colours are in the server's words of 32 bits.
#[derive(Clone, Copy, Debug)]
struct Layout {
    /// Lowest bits of red, green and blue.
    shifts: [u32; 3],
    big_endian: bool,
}

impl Screen {
    /// `None` = all of it, otherwise "X,Y,WIDTHxHEIGHT" in pixels.
    pub(super) fn open(region: Option<&str>) -> Result<Self, SourceError> {
        let asked = region.map(parse).transpose()?;
        let set = |variable: &str| std::env::var_os(variable).is_some_and(|value| !value.is_empty());
        if !set("DISPLAY") && set("WAYLAND_DISPLAY") {
            return Err(unsupported(
                "this is a Wayland session without X11, which lets no program read the screen",
            ));
        }
        if !set("DISPLAY") {
            return Err(unsupported("there is no screen here: DISPLAY is not set"));
        }
        let (connection, number) =
            x11rb::connect(None).map_err(|e| unsupported(&format!("no connection to the X server: {e}")))?;
        let setup = connection.setup();
        let screen = setup.roots.get(number).ok_or_else(|| unsupported("the X server has no such screen"))?;
        let (width, height) = (screen.width_in_pixels, screen.height_in_pixels);
        let region = asked.unwrap_or(Region { x: 0, y: 0, width, height });
        let inside = |from: i16, size: u16, whole: u16| {
            from >= 0 && size > 0 && u32::from(from.unsigned_abs()) + u32::from(size) <= u32::from(whole)
        };
        if !inside(region.x, region.width, width) || !inside(region.y, region.height, height) {
            return Err(SourceError::Argument {
                what: format!("screen region {},{},{}x{}", region.x, region.y, region.width, region.height),
                expected: format!("a part of the screen of {width}x{height} pixels"),
            });
        }
        let root = screen.root;
        let layout = layout(&connection, number).ok_or_else(|| {
            unsupported("its pixels are not of 32 bits with 8 for each colour; only such screens are read")
        })?;
        Ok(Self { connection, root, region, layout, index: 0, due: Instant::now() })
    }
}

fn unsupported(reason: &str) -> SourceError {
    let remedy = "open a screenshot or a screen recording";
    SourceError::Unsupported { what: "screen".into(), reason: reason.to_owned(), remedy }
}

fn layout(connection: &RustConnection, number: usize) -> Option<Layout> {
    let setup = connection.setup();
    let screen = setup.roots.get(number)?;
    let format = setup.pixmap_formats.iter().find(|f| f.depth == screen.root_depth)?;
    let visuals = screen.allowed_depths.iter().flat_map(|depth| &depth.visuals);
    let visual = visuals.into_iter().find(|v| v.visual_id == screen.root_visual)?;
    let masks = [visual.red_mask, visual.green_mask, visual.blue_mask];
    let whole = masks.iter().all(|m| m.count_ones() == 8 && m >> m.trailing_zeros() == 0xff);
    (whole && format.bits_per_pixel == 32).then(|| Layout {
        shifts: masks.map(u32::trailing_zeros),
        big_endian: setup.image_byte_order == ImageOrder::MSB_FIRST,
    })
}

fn parse(text: &str) -> Result<Region, SourceError> {
    let read = || {
        let mut parts = text.split(',').map(str::trim);
        let (x, y, size) = (parts.next()?, parts.next()?, parts.next()?);
        let (width, height) = size.split_once('x')?;
        let region = Region {
            x: x.parse().ok()?,
            y: y.parse().ok()?,
            width: width.parse().ok()?,
            height: height.parse().ok()?,
        };
        parts.next().is_none().then_some(region)
    };
    read().ok_or_else(|| SourceError::Argument {
        what: format!("screen region `{text}`"),
        expected: "X,Y,WIDTHxHEIGHT in pixels, such as 100,50,640x480".into(),
    })
}

impl Source for Screen {
    fn name(&self) -> String {
        let Region { x, y, width, height } = self.region;
        format!("screen {x},{y},{width}x{height}")
    }

    fn kind(&self) -> Kind {
        Kind::Live
    }

    fn next(&mut self) -> Result<Next, SourceError> {
        let now = Instant::now();
        if now < self.due {
            return Ok(Next::Wait(self.due - now));
        }
        self.due = now + DEFAULT_FRAME_TIME;
        let Region { x, y, width, height } = self.region;
        let lost = |reason: String| SourceError::Read {
            what: "the screen".into(),
            reason,
            remedy: "open it again if its size has changed",
        };
        let image = self
            .connection
            .get_image(ImageFormat::Z_PIXMAP, self.root, x, y, width, height, !0)
            .map_err(|e| lost(e.to_string()))?
            .reply()
            .map_err(|e| lost(e.to_string()))?;
        let Layout { shifts, big_endian } = self.layout;
        let samples = image
            .data
            .chunks_exact(4)
            .flat_map(|word| {
                let word = [word[0], word[1], word[2], word[3]];
                let word = if big_endian { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) };
                shifts.map(|shift| (word >> shift) as u8)
            })
            .collect();
        let photo = Photo::from_rgb8(&self.name(), width.into(), height.into(), samples)?;
        let index = self.index;
        self.index += 1;
        Ok(Next::Frame(Frame { photo, index, shown_for: None, notices: Vec::new() }))
    }

    fn go_to(&mut self, index: u64) -> Result<(), SourceError> {
        Err(SourceError::live(&self.name(), index))
    }
}
