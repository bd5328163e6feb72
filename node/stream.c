#include "node/stream.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* A read this size costs little beside its lines, and stays in the processor's cache until they are decoded. */
#define READ_BYTES_MAX ((size_t)256 * 1024)

void hr_lines_init(struct hr_lines *lines, int fd)
{
    lines->fd = fd;
    lines->ended = false;
    lines->begin = lines->scanned = lines->end = 0;
}

bool hr_lines_take(struct hr_lines *lines, struct hr_span *ret_line)
{
    char *begin = lines->buffer + lines->begin;
    char *newline = memchr(lines->buffer + lines->scanned, '\n', lines->end - lines->scanned);
    if (newline == NULL && !(lines->ended && lines->begin < lines->end)) {
        lines->scanned = lines->end;
        return false;
    }
    char *end = newline != NULL ? newline : lines->buffer + lines->end;
    *ret_line = (struct hr_span){begin, (size_t)(end - begin)};
    lines->begin = lines->scanned = (size_t)(end - lines->buffer) + (newline != NULL);
    return true;
}

enum hr_err hr_lines_fill(struct hr_lines *lines)
{
    size_t held = lines->end - lines->begin;
    size_t room = sizeof(lines->buffer) - held;
    if (room == 0) {
        return HR_E_TOO_MANY;
    }
    memmove(lines->buffer, lines->buffer + lines->begin, held);
    lines->scanned -= lines->begin;
    lines->begin = 0;
    lines->end = held;
    ssize_t got = 0;
    do {
        got = read(lines->fd, lines->buffer + held, room < READ_BYTES_MAX ? room : READ_BYTES_MAX);
    } while (got < 0 && errno == EINTR);
    if (got < 0) {
        return HR_E_IO;
    }
    lines->end += (size_t)got;
    lines->ended = got == 0;
    return HR_OK;
}

void hr_sink_init(struct hr_sink *sink, int fd)
{
    sink->fd = fd;
    sink->used = 0;
}

char *hr_sink_room(struct hr_sink *sink, size_t bytes)
{
    if (bytes > sizeof(sink->buffer) - sink->used && hr_sink_flush(sink) != HR_OK) {
        return NULL;
    }
    return sink->buffer + sink->used;
}

void hr_sink_wrote(struct hr_sink *sink, size_t bytes)
{
    sink->used += bytes;
}

enum hr_err hr_sink_flush(struct hr_sink *sink)
{
    size_t done = 0;
    while (done < sink->used) {
        ssize_t put = write(sink->fd, sink->buffer + done, sink->used - done);
        if (put < 0 && errno == EINTR) {
            continue;
        }
        if (put < 0) {
            sink->used = 0;
            return HR_E_IO;
        }
        done += (size_t)put;
    }
    sink->used = 0;
    return HR_OK;
}
