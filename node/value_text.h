/* Values: any MessagePack value as text, for the maps of a node that the command need not know in full: as JSON for
 * scripts, as YAML for files, and as an aligned list for people.
 *
 * Texts of a node are held off the terminal's controls: for people, each control byte, and each that is no UTF-8,
 * becomes '?'; in JSON and YAML they are escaped, and what is no UTF-8 becomes U+FFFD.
 *
 * All: errors as in rpc/unpack.h, and then part of the value may have been written. Whether all could be written is for
 * the caller to ask of `out`. A value is nested no deeper than HR_NESTING_MAX: that is checked first.
 * Thread: any. Memory: the stack. */
#ifndef HR_NODE_VALUE_TEXT_H
#define HR_NODE_VALUE_TEXT_H

#include <stdio.h>

#include "base/err.h"
#include "base/span.h"

/* On one line. Numbers are integers or reals; bin is taken as text. An ext or a real that JSON lacks is null. */
HR_MUST enum hr_err hr_value_print_json(FILE *out, struct hr_span value);

/* The same in YAML's flow style: without quotes where none are needed. */
HR_MUST enum hr_err hr_value_print_flow(FILE *out, struct hr_span value);

/* A map as one item of a YAML list: a line for each key, its value on the same line. */
HR_MUST enum hr_err hr_value_print_item(FILE *out, struct hr_span map);

/* (value_list.c) A map as an aligned list; maps within it as lists further in; arrays of alike maps as tables. */
HR_MUST enum hr_err hr_value_print(FILE *out, struct hr_span map);

/* A text alone. */
void hr_text_print(FILE *out, struct hr_span text);
void hr_text_print_json(FILE *out, struct hr_span text); /* with its quotes */

#endif
