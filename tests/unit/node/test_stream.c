/* Lines in and bytes out, over pipes: whatever the pieces that they arrive in, lines stay lines. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "node/stream.h"

static struct hr_lines lines;
static struct hr_sink sink;

static void put(int fd, const char *text)
{
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
}

static void assert_takes(const char *text)
{
    struct hr_span line = {NULL, 0};
    assert_true(hr_lines_take(&lines, &line));
    assert_int_equal(line.bytes, strlen(text));
    assert_memory_equal(line.at, text, line.bytes);
}

static void assert_takes_nothing(void)
{
    struct hr_span line;
    assert_false(hr_lines_take(&lines, &line));
}

static void a_line_is_taken_once_its_end_has_arrived(void **state)
{
    int ends[2];
    (void)state;
    assert_int_equal(pipe(ends), 0);
    hr_lines_init(&lines, ends[0]);
    assert_takes_nothing();
    put(ends[1], "one\ntw");
    assert_int_equal(hr_lines_fill(&lines), HR_OK);
    assert_takes("one");
    assert_takes_nothing();
    put(ends[1], "o\n\nthr");
    assert_int_equal(hr_lines_fill(&lines), HR_OK);
    assert_takes("two");
    assert_takes("");
    assert_takes_nothing();
    put(ends[1], "ee");
    assert_int_equal(hr_lines_fill(&lines), HR_OK);
    assert_takes_nothing();
    (void)close(ends[1]);
    assert_int_equal(hr_lines_fill(&lines), HR_OK);
    assert_true(lines.ended);
    assert_takes("three");
    assert_takes_nothing();
    (void)close(ends[0]);
}

static void an_input_that_ends_with_a_line_has_no_line_behind_it(void **state)
{
    int ends[2];
    (void)state;
    assert_int_equal(pipe(ends), 0);
    hr_lines_init(&lines, ends[0]);
    put(ends[1], "one\n");
    (void)close(ends[1]);
    assert_int_equal(hr_lines_fill(&lines), HR_OK);
    assert_takes("one");
    assert_int_equal(hr_lines_fill(&lines), HR_OK);
    assert_true(lines.ended);
    assert_takes_nothing();
    (void)close(ends[0]);
}

static void a_line_without_an_end_stops_at_the_bound(void **state)
{
    int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    (void)state;
    assert_true(fd >= 0);
    hr_lines_init(&lines, fd);
    enum hr_err err = HR_OK;
    size_t fills = 0;
    while (err == HR_OK && fills < HR_LINES_BUFFER_BYTES) {
        assert_takes_nothing();
        err = hr_lines_fill(&lines);
        fills++;
    }
    assert_int_equal(err, HR_E_TOO_MANY);
    (void)close(fd);
}

static void a_folder_cannot_be_read_and_errno_says_so(void **state)
{
    int fd = open(".", O_RDONLY | O_CLOEXEC);
    (void)state;
    assert_true(fd >= 0);
    hr_lines_init(&lines, fd);
    assert_int_equal(hr_lines_fill(&lines), HR_E_IO);
    assert_int_equal(errno, EISDIR);
    (void)close(fd);
}

static void what_was_written_arrives_at_a_flush(void **state)
{
    int ends[2];
    char got[8];
    (void)state;
    assert_int_equal(pipe(ends), 0);
    hr_sink_init(&sink, ends[1]);
    memcpy(hr_sink_room(&sink, 3), "abc", 3);
    hr_sink_wrote(&sink, 3);
    memcpy(hr_sink_room(&sink, 2), "de", 2);
    hr_sink_wrote(&sink, 2);
    assert_int_equal(hr_sink_flush(&sink), HR_OK);
    assert_int_equal(hr_sink_flush(&sink), HR_OK); /* nothing is written twice */
    (void)close(ends[1]);
    assert_int_equal(read(ends[0], got, sizeof(got)), 5);
    assert_memory_equal(got, "abcde", 5);
    (void)close(ends[0]);
}

static void a_reader_that_went_away_is_an_error_when_room_is_needed(void **state)
{
    int ends[2];
    (void)state;
    assert_true(signal(SIGPIPE, SIG_IGN) != SIG_ERR);
    assert_int_equal(pipe(ends), 0);
    (void)close(ends[0]);
    hr_sink_init(&sink, ends[1]);
    assert_non_null(hr_sink_room(&sink, HR_SINK_BUFFER_BYTES));
    memset(sink.buffer, 'x', sizeof(sink.buffer));
    hr_sink_wrote(&sink, HR_SINK_BUFFER_BYTES);
    assert_null(hr_sink_room(&sink, 1));
    assert_int_equal(errno, EPIPE);
    (void)close(ends[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_is_taken_once_its_end_has_arrived),
        cmocka_unit_test(an_input_that_ends_with_a_line_has_no_line_behind_it),
        cmocka_unit_test(a_line_without_an_end_stops_at_the_bound),
        cmocka_unit_test(a_folder_cannot_be_read_and_errno_says_so),
        cmocka_unit_test(what_was_written_arrives_at_a_flush),
        cmocka_unit_test(a_reader_that_went_away_is_an_error_when_room_is_needed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
