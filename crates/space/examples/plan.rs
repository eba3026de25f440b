//! What fits into a range: grants blocks of the given sizes and says where they went and what is left.
//!
//! `cargo run --example plan -- 10.0.0.0/16 24 24 20 26`

use std::process::ExitCode;

use space::{Address, Cidr, Fit, Prefix, Register, View};

const USAGE: &str = "usage: plan RANGE LENGTH...

Grants one block of each prefix LENGTH from RANGE by best fit, in the order given, and prints where each went, what is
left and how scattered it is. Nothing is stored.

  cargo run --example plan -- 10.0.0.0/16 24 24 20 26
  cargo run --example plan -- 2001:db8::/32 64 48 120";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((range, lengths)) = arguments.split_first().filter(|(first, rest)| *first != "--help" && !rest.is_empty())
    else {
        println!("{USAGE}");
        return if arguments.iter().any(|argument| argument == "--help") {
            ExitCode::SUCCESS
        } else {
            ExitCode::from(2)
        };
    };
    let planned = match Cidr::strict(range) {
        Ok(Cidr::V4(range)) => plan(range, lengths),
        Ok(Cidr::V6(range)) => plan(range, lengths),
        Err(why) => Err(format!("{range}: {why}")),
    };
    match planned {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::from(2)
        }
    }
}

fn plan<A: Address>(range: Prefix<A>, lengths: &[String]) -> Result<(), String> {
    let mut register = Register::new();
    let read = |text: &String| text.trim_start_matches('/').parse().map_err(|_| format!("{text} is no prefix length"));
    let lengths: Vec<u8> = lengths.iter().map(read).collect::<Result<_, _>>()?;
    let finest = lengths.iter().copied().max().unwrap_or(range.length());
    let view = register.add_view(View::new(range, finest, &[]).map_err(|why| why.to_string())?);
    for (number, length) in lengths.into_iter().enumerate() {
        match register.grant(view, length, Fit::Best, number) {
            Ok(block) => println!("block {number}: {block}"),
            Err(why) => println!("block {number}: {why}"),
        }
    }
    if let Some(counts) = register.counts(view) {
        let largest = counts.largest_free.map_or("nothing".to_owned(), |length| format!("a /{length}"));
        println!("\nleft in {range}: {} of {} blocks of /{finest}", counts.free, counts.capacity);
        println!("largest free block: {largest}; outside it: {:.1} % of what is free", counts.fragmentation * 100.0);
    }
    Ok(())
}
