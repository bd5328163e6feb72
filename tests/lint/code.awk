# Prints C source line by line with comments blanked and string and character literals emptied, so that the checks see
# code alone. A `//` comment is left in place: it is itself a finding.

function blank_comment(at, end) {
    end = index(substr(line, at), "*/")
    in_comment = !end
    return end ? at + end + 1 : length(line) + 1
}

function skip_literal(at, quote, c) {
    for (at++; at <= length(line); at++) {
        c = substr(line, at, 1)
        if (c == "\\") {
            at++
        } else if (c == quote) {
            break
        }
    }
    return at + 1
}

FNR == 1 { in_comment = 0 }

{
    line = $0
    code = ""
    at = in_comment ? blank_comment(1) : 1
    while (at <= length(line)) {
        c = substr(line, at, 1)
        pair = substr(line, at, 2)
        if (pair == "/*") {
            code = code " "
            at += 2
            at = blank_comment(at)
        } else if (pair == "//") {
            code = code substr(line, at)
            break
        } else if (c == "\"" || c == "'") {
            code = code c c
            at = skip_literal(at, c)
        } else {
            code = code c
            at++
        }
    }
    print code
}
