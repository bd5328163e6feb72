#include <curses.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "node/clock.h"
#include "node/command/ask.h"
#include "node/command/top.h"
#include "node/value_text.h"

#define PERIOD_MS 1000
#define ROWS_ONCE 20
#define ROWS_ABOVE 9 /* lines of a screen that are neither a limit nor a key */
#define ROWS_CAPS 3  /* ... and those around global limits */

static const char help[] =
    "usage: headroom top [OPTION...]\n"
    "\n"
    "Shows, each second, what a node decides: its rates, the busiest limits, and the counters that\n"
    "are asked for most. A counter goes by a keyed hash, never by its key. Of each global limit it\n"
    "shows what a counter's home and its reserve are in this region; how many counters something goes\n"
    "on with between regions; and of those what this region may spend, has lent and has borrowed. q\n"
    "quits.\n"
    "\n"
    "  --once            print it once, its rates those since the node's start; so does --json, which\n"
    "                    prints what the node says of itself as it is\n" HR_ASK_HELP "\n"
    "Exit status: 0 done, 2 wrong usage, 3 the node did not answer.\n";

/* Where the node cannot be understood, that is as good as unreachable. */
static bool read_answer(struct hr_client *client, struct hr_span answer, struct hr_top_sample *sample,
                        enum hr_err (*read)(struct hr_span answer, struct hr_top_sample *sample))
{
    if (read(answer, sample) == HR_OK) {
        return true;
    }
    hr_problem_what(&client->problem, "the node's answer cannot be understood");
    hr_problem_where(&client->problem, "%s", client->where);
    return false;
}

/* Not HR_CLIENT_ANSWERED: the client holds why. */
static enum hr_client_end take_sample(struct hr_client *client, struct hr_top_sample *ret_sample)
{
    static const struct hr_params none;
    struct hr_span answer;
    memset(ret_sample, 0, sizeof(*ret_sample));
    enum hr_client_end end = hr_client_call(client, HR_METHOD_STATUS, &none, &answer);
    if (end == HR_CLIENT_ANSWERED) {
        ret_sample->at_ms = hr_clock_steady() / HR_NS_PER_MS;
        if (!read_answer(client, answer, ret_sample, hr_top_read_status)) {
            return HR_CLIENT_UNREACHABLE;
        }
        end = hr_client_call(client, HR_METHOD_HOT_KEYS, &none, &answer);
    }
    if (end == HR_CLIENT_ANSWERED && !read_answer(client, answer, ret_sample, hr_top_read_hot_keys)) {
        return HR_CLIENT_UNREACHABLE;
    }
    return end;
}

static int show_once(struct hr_client *client)
{
    static struct hr_top_sample sample; /* 110 KiB */
    enum hr_client_end end = take_sample(client, &sample);
    if (end != HR_CLIENT_ANSWERED) {
        return hr_ask_fail(client, end);
    }
    hr_top_print(stdout, NULL, &sample, ROWS_ONCE);
    return HR_EXIT_DONE;
}

static int print_answer_json(struct hr_client *client, const char *before, enum hr_method method)
{
    struct hr_span answer;
    int status = hr_ask_call(client, method, NULL, &answer);
    if (status != HR_EXIT_DONE) {
        return status;
    }
    (void)fputs(before, stdout);
    return hr_value_print_json(stdout, answer) == HR_OK ? HR_EXIT_DONE : hr_ask_garbage(client);
}

static int show_json(struct hr_client *client)
{
    int status = print_answer_json(client, "{\"status\":", HR_METHOD_STATUS);
    if (status == HR_EXIT_DONE) {
        status = print_answer_json(client, ",\"hot_keys\":", HR_METHOD_HOT_KEYS);
        (void)puts("}");
    }
    return status;
}

/* Each line is cut to the screen's width, and what lies below its last line is left out. */
static void draw(const struct hr_top_sample *before, const struct hr_top_sample *now)
{
    char *text = NULL;
    size_t bytes = 0;
    int rows = now->cap_count > 0 ? (LINES - ROWS_ABOVE - ROWS_CAPS) / 3 : (LINES - ROWS_ABOVE) / 2;
    FILE *out = open_memstream(&text, &bytes);
    if (out == NULL) {
        return;
    }
    hr_top_print(out, before, now, rows > 0 ? (uint32_t)rows : 0);
    erase();
    if (fclose(out) == 0) {
        int y = 0;
        for (char *line = text, *end; y < LINES && (end = strchr(line, '\n')) != NULL; line = end + 1, y++) {
            (void)mvaddnstr(y, 0, line, (int)(end - line) < COLS ? (int)(end - line) : COLS);
        }
    }
    free(text);
    (void)refresh();
}

/* Waits out the period. False: the user has had enough. A new size of the screen is drawn at once. */
static bool wait_for_key(int64_t until_ms, const struct hr_top_sample *before, const struct hr_top_sample *now)
{
    for (;;) {
        int64_t left_ms = until_ms - hr_clock_steady() / HR_NS_PER_MS;
        if (left_ms <= 0) {
            return true;
        }
        timeout((int)left_ms);
        errno = 0;
        int key = getch();
        if (key == 'q' || key == 'Q' || key == 3) {
            return false;
        }
        if (key == ERR && errno != 0 && errno != EINTR && errno != EAGAIN) {
            return false; /* the terminal is gone */
        }
        if (key == KEY_RESIZE) {
            draw(before, now);
        }
    }
}

/* Until q, or until the node does not answer. */
static enum hr_client_end show(struct hr_client *client)
{
    static struct hr_top_sample samples[2];
    const struct hr_top_sample *before = NULL;
    for (uint32_t i = 0;; i ^= 1) {
        enum hr_client_end end = take_sample(client, &samples[i]);
        if (end != HR_CLIENT_ANSWERED) {
            return end;
        }
        draw(before, &samples[i]);
        if (!wait_for_key(samples[i].at_ms + PERIOD_MS, before, &samples[i])) {
            return HR_CLIENT_ANSWERED;
        }
        before = &samples[i];
    }
}

static int show_live(struct hr_client *client)
{
    const char *terminal = getenv("TERM");
    if (isatty(STDIN_FILENO) != 1 || isatty(STDOUT_FILENO) != 1) {
        return hr_cmd_usage("top", "top needs a terminal; --once does not");
    }
    SCREEN *screen = newterm(NULL, stdout, stdin);
    if (screen == NULL) {
        return hr_cmd_usage("top", "the terminal \"%s\" is not known", terminal != NULL ? terminal : "");
    }
    (void)cbreak();
    (void)noecho();
    (void)keypad(stdscr, TRUE);
    (void)curs_set(0); /* not every terminal can hide it */
    enum hr_client_end end = show(client);
    (void)endwin();
    delscreen(screen);
    return end == HR_CLIENT_ANSWERED ? HR_EXIT_DONE : hr_ask_fail(client, end);
}

int hr_cmd_top(int argc, char **argv)
{
    enum { ONCE = HR_ASK_OWN };
    static const struct option options[] = {{"once", no_argument, NULL, ONCE}, HR_ASK_OPTIONS};
    struct hr_ask ask = HR_ASK_INIT(argv[0]);
    struct hr_client client;
    bool once = false;
    int option = 0, status = HR_EXIT_DONE;
    while ((option = hr_ask_option(&ask, argc, argv, options, help, &status)) != HR_OPTION_END) {
        if (option != ONCE) {
            return status;
        }
        once = true;
    }
    if (optind < argc) {
        return hr_cmd_usage(argv[0], "top takes no argument, not %s", argv[optind]);
    }
    status = hr_ask_open(&ask, &client);
    if (status == HR_EXIT_DONE) {
        status = ask.json ? show_json(&client) : once ? show_once(&client) : show_live(&client);
        hr_client_close(&client);
    }
    return status;
}
