//! What `kubectl explain` says, without the descriptions: each server has its own. Everything else stays.

/// The part of the text that a line is in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Other,
    Description,
    Fields,
}

/// The text without descriptions, of the whole and of fields. Text that explains nothing stays as it is.
pub(super) fn undescribed(text: &str) -> String {
    let mut kept = String::new();
    let mut part = Part::Other;
    let mut after_field = false;
    for line in text.split_inclusive('\n') {
        let head = line.trim_end();
        part = match head {
            "DESCRIPTION:" => Part::Description,
            "FIELDS:" => Part::Fields,
            _ => part,
        };
        let field = is_field(head);
        let stays = match part {
            Part::Other => true,
            Part::Description => head == "DESCRIPTION:",
            // The values of a field stand right below it.
            Part::Fields => head == "FIELDS:" || field || after_field && head.trim_start().starts_with("enum: "),
        };
        if stays {
            kept.push_str(line);
        }
        after_field = field;
    }
    kept
}

/// `  name<tab><type> -required-`
fn is_field(line: &str) -> bool {
    line.trim_start().split_once('\t').is_some_and(|(name, ty)| !name.contains(' ') && ty.starts_with('<'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXPLAINED: &str = "\
KIND:       Service
VERSION:    v1

FIELD: ports <[]ServicePort>
ENUM:
    A
    B

DESCRIPTION:
    Some text.
    
FIELDS:
  port\t<integer> -required-
    The port, a <number>.

  protocol\t<string>
  enum: SCTP, TCP, UDP
    A protocol:
    enum: of sorts

";

    #[test]
    fn descriptions_go_and_all_else_stays() {
        let expected = "\
KIND:       Service
VERSION:    v1

FIELD: ports <[]ServicePort>
ENUM:
    A
    B

DESCRIPTION:
FIELDS:
  port\t<integer> -required-
  protocol\t<string>
  enum: SCTP, TCP, UDP
";
        assert_eq!(undescribed(EXPLAINED), expected);
        let error = "error: field \"x\" does not exist\n";
        assert_eq!(undescribed(error), error);
    }
}
