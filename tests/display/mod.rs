//! A virtual display for tests that open a real window.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

/// An X server without a screen; it ends with this value.
pub(crate) struct Display(Child, String);

impl Display {
    /// Starts one on a free number and waits until it answers; `None`, told, where there is no Xvfb and none is required.
    pub(crate) fn start() -> Option<Self> {
        let server = Command::new("Xvfb")
            .args(["-displayfd", "1", "-screen", "0", "1280x800x24", "-nolisten", "tcp"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let mut server = match server {
            Ok(server) => server,
            Err(error) => {
                let required = std::env::var_os("WGATTN_REQUIRE_ADAPTERS").is_some();
                assert!(!required, "Xvfb must be there: {error}");
                println!("ignored: no Xvfb ({error})");
                return None;
            }
        };
        let mut number = String::new();
        let output = server.stdout.take().expect("the server's output is piped");
        BufReader::new(output).read_line(&mut number).expect("the server says its number");
        assert!(!number.trim().is_empty(), "Xvfb ended at once");
        Some(Self(server, format!(":{}", number.trim())))
    }

    /// What DISPLAY is set to for it.
    pub(crate) fn name(&self) -> &str {
        &self.1
    }

    /// Makes a program draw to it, with drivers that can.
    pub(crate) fn lead<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        // SwiftShader's driver cannot draw to a window of ours.
        command.env_remove("VK_ADD_DRIVER_FILES").env_remove("VK_ICD_FILENAMES");
        command.env_remove("WAYLAND_DISPLAY").env("DISPLAY", self.name())
    }
}

impl Drop for Display {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
