//! The desktop explorer: attention of a clicked pixel over live pictures, masks painted by hand, and why it is so.
//!
//! The window and the engine share one device. The engine works on a thread of its own ([`engine`]): the newest request
//! wins, work is cut into short submissions so that frames pass between them, and pictures stay on the device. What the
//! window shows is a list of [`views`]; what the user made is a [`document`], which undo and sessions go through.

pub mod analysis;
pub mod canvas;
pub mod document;
pub mod engine;
pub mod fonts;
pub mod mask;
pub mod panel;
pub mod settings;
pub mod snapshot;
pub mod textures;
pub mod views;
pub mod widgets;
