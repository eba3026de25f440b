//! What is logged and how. Logs go to stderr; stdout is for what was asked for.

use std::io;

use clap::{Args, ValueEnum};
use tracing::error;
use tracing_subscriber::EnvFilter;

#[derive(Args)]
pub(crate) struct Options {
    /// How logs are written
    #[arg(
        long,
        global = true,
        value_name = "FORMAT",
        default_value = "text",
        visible_alias = "logging-format",
        help_heading = "Logging, to stderr"
    )]
    log_format: Format,
    /// How much is logged: 0 what matters, from 2 on what clients do wrong, from 6 on everything (or set `RUST_LOG`)
    #[arg(short, long, global = true, value_name = "NUMBER", default_value_t = 0, help_heading = "Logging, to stderr")]
    v: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Lines for people
    Text,
    /// One JSON object for each line
    Json,
}

/// Logs from now on, panics included.
pub(crate) fn start(options: &Options) {
    let default = match options.v {
        0..=1 => "info",
        2..=5 => "info,agent=debug,cadastre=debug,controllers=debug,server=debug,store=debug",
        6.. => "trace",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    match options.log_format {
        Format::Text => builder.init(),
        Format::Json => builder.json().init(),
    }
    std::panic::set_hook(Box::new(|panic| error!(%panic, "the program has a fault; please report it")));
}
