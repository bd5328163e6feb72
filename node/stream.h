/* Stream: lines in from a file descriptor and bytes out to one, through large buffers of fixed size.
 *
 * Thread: one each. Memory: the buffers are part of the structs, which are therefore large: keep them on the heap.
 * After HR_E_IO, errno says why. */
#ifndef HR_NODE_STREAM_H
#define HR_NODE_STREAM_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/span.h"

#define HR_LINES_BUFFER_BYTES ((size_t)1280 * 1024) /* also the longest line that can be taken */
#define HR_SINK_BUFFER_BYTES ((size_t)512 * 1024)

struct hr_lines {
    int fd;
    bool ended;                 /* the input has no more bytes than the buffer holds */
    size_t begin, scanned, end; /* of the bytes not yet taken; no end of line lies before scanned */
    char buffer[HR_LINES_BUFFER_BYTES];
};

void hr_lines_init(struct hr_lines *lines, int fd);

/* Takes the next line that is wholly in the buffer, without its '\n'; once the input has ended, also a last one that
 * lacks it. False: there is none, so fill or stop. Never blocks. The span lives until the next fill. */
bool hr_lines_take(struct hr_lines *lines, struct hr_span *ret_line);

/* Reads once, and may block. HR_E_TOO_MANY: one line without an end fills the buffer. */
HR_MUST enum hr_err hr_lines_fill(struct hr_lines *lines);

struct hr_sink {
    int fd;
    size_t used;
    char buffer[HR_SINK_BUFFER_BYTES];
};

void hr_sink_init(struct hr_sink *sink, int fd);

/* A place to write up to `bytes` (at most HR_SINK_BUFFER_BYTES); then say by hr_sink_wrote how many they were. NULL:
 * what the buffer held could not be written out. */
char *hr_sink_room(struct hr_sink *sink, size_t bytes);
void hr_sink_wrote(struct hr_sink *sink, size_t bytes);

/* On failure the buffer is given up, so that no byte is ever written twice. */
HR_MUST enum hr_err hr_sink_flush(struct hr_sink *sink);

#endif
