#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "node/answer.h"
#include "node/command/cmd.h"
#include "node/command/replay.h"
#include "node/command/requests_jansson.h"
#include "node/command/summary.h"
#include "node/limits_yaml.h"
#include "node/stream.h"

_Static_assert(HR_LINES_BUFFER_BYTES > HR_REQUEST_LINE_BYTES_MAX, "a line at its longest must reach the decoder");

static const char help[] =
    "usage: headroom replay --limits FILE [OPTION...] [REQUESTS.jsonl | -]\n"
    "\n"
    "Runs recorded requests through the limits of FILE under a virtual clock and prints one\n"
    "decision for each line, as JSON. The requests come from a file, or from standard input.\n"
    "\n"
    "  --limits FILE   the limits file\n"
    "  --summary       print a table by limit instead of the decisions\n"
    "  --json          with --summary: print it as JSON\n"
    "  --counters N    room for N live counters (default 4000000), and for a sixteenth as many leases\n"
    "                  and blocks of sliding logs (20 requests each), but at least 8192 of both.\n"
    "                  A counter takes 60 bytes; they lie scattered and memory is not given back,\n"
    "                  so that many keys come to use all of it, however short-lived each is\n"
    "  --help          print this\n"
    "  --version       print the version\n"
    "\n"
    "A request line, with Unix time in microseconds:\n"
    "  {\"at_us\": 1700000000000000, \"attributes\": {\"api_key\": \"k1\"}, \"cost\": 1, \"peek\": false}\n"
    "or, to give back the leases that line 7 got:\n"
    "  {\"at_us\": 1700000000000000, \"op\": \"release\", \"line\": 7}\n"
    "Numbers are whole and written plainly: not 1.0 or 1e2. No line is blank.\n"
    "\n"
    "Exit status: 0 done, 2 wrong usage or invalid input.\n";

struct options {
    const char *limits_path;
    const char *requests_path; /* NULL: standard input */
    uint32_t counters_max;
    bool summary, json;
};

/* One run. What it opened is closed at one place, whatever went wrong on the way. */
struct run {
    struct options options;
    int fd;
    struct hr_limits_file *limits;
    struct hr_replay *replay;
    struct hr_request_decoder *decoder;
    struct hr_lines *lines;
    struct hr_sink *sink;
    struct hr_summary *summary; /* NULL: print the decisions */
    uint64_t line_number;
    struct hr_problem problem;
};

static bool parse_counters(const char *text, uint32_t *ret_counters)
{
    char *end = NULL;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || value < 1 || value > HR_REPLAY_COUNTERS_MAX) {
        return false;
    }
    *ret_counters = (uint32_t)value;
    return true;
}

/* False: the command ends here, with *ret_exit. */
static bool parse_arguments(int argc, char **argv, struct options *ret_options, int *ret_exit)
{
    enum { LIMITS = HR_OPTION_OWN, SUMMARY, JSON, COUNTERS };
    static const struct option table[] = {
        {"limits", required_argument, NULL, LIMITS},
        {"summary", no_argument, NULL, SUMMARY},
        {"json", no_argument, NULL, JSON},
        {"counters", required_argument, NULL, COUNTERS},
        HR_OPTIONS_COMMON,
    };
    int option = 0;
    while ((option = hr_cmd_option(argc, argv, table, help, ret_exit)) != HR_OPTION_END) {
        switch (option) {
        case LIMITS:
            ret_options->limits_path = optarg;
            break;
        case SUMMARY:
            ret_options->summary = true;
            break;
        case JSON:
            ret_options->json = true;
            break;
        case COUNTERS:
            if (!parse_counters(optarg, &ret_options->counters_max)) {
                *ret_exit =
                    hr_cmd_usage(argv[0], "--counters must be a whole number from 1 to %d", HR_REPLAY_COUNTERS_MAX);
                return false;
            }
            break;
        default:
            return false;
        }
    }
    if (ret_options->limits_path == NULL) {
        *ret_exit = hr_cmd_usage(argv[0], "--limits FILE is missing");
        return false;
    }
    if (argc - optind > 1) {
        *ret_exit = hr_cmd_usage(argv[0], "one requests file at a time, not also %s", argv[optind + 1]);
        return false;
    }
    if (optind < argc && strcmp(argv[optind], "-") != 0) {
        ret_options->requests_path = argv[optind];
    }
    return true;
}

static const char *input_name(const struct run *run)
{
    return run->options.requests_path != NULL ? run->options.requests_path : "standard input";
}

static bool fault_at_input(struct run *run, const char *what)
{
    return hr_problem_errno(&run->problem, input_name(run), what);
}

/* The words are there already. */
static bool fault_at_line(struct run *run)
{
    hr_problem_where(&run->problem, "%s:%" PRIu64, input_name(run), run->line_number);
    return false;
}

static bool fault_at_output(struct run *run)
{
    hr_problem_what(&run->problem, "cannot write the answers: %s", strerror(errno));
    hr_problem_where(&run->problem, "standard output");
    return false;
}

static bool open_input(struct run *run)
{
    run->fd = STDIN_FILENO;
    if (run->options.requests_path == NULL) {
        return true;
    }
    run->fd = open(run->options.requests_path, O_RDONLY | O_CLOEXEC);
    return run->fd >= 0 || fault_at_input(run, "cannot open the requests");
}

static bool open_limits(struct run *run)
{
    run->limits = hr_limits_file_load(run->options.limits_path, &run->problem);
    if (run->limits == NULL) {
        return false;
    }
    run->replay = hr_replay_open(run->limits, run->options.counters_max, &run->problem);
    if (run->replay == NULL) {
        hr_problem_where(&run->problem, "%s", run->options.limits_path);
    }
    return run->replay != NULL;
}

static bool open_buffers(struct run *run)
{
    run->decoder = hr_request_decoder_new();
    run->lines = malloc(sizeof(*run->lines));
    run->sink = malloc(sizeof(*run->sink));
    if (run->options.summary) {
        run->summary = hr_summary_new(run->limits);
    }
    if (run->decoder == NULL || run->lines == NULL || run->sink == NULL ||
        (run->options.summary && run->summary == NULL)) {
        hr_problem_what(&run->problem, "no memory");
        return false;
    }
    hr_lines_init(run->lines, run->fd);
    hr_sink_init(run->sink, STDOUT_FILENO);
    return true;
}

static void close_all(struct run *run)
{
    hr_summary_free(run->summary);
    free(run->sink);
    free(run->lines);
    hr_request_decoder_free(run->decoder);
    hr_replay_close(run->replay);
    hr_limits_file_free(run->limits);
    if (run->fd > STDIN_FILENO) {
        (void)close(run->fd); /* was only read from */
    }
}

static bool release(struct run *run, const struct hr_request_line *line)
{
    bool released = hr_replay_release(run->replay, line->release_line, line->at_us);
    if (run->summary != NULL) {
        hr_summary_count_release(run->summary);
        return true;
    }
    char *room = hr_sink_room(run->sink, HR_ANSWER_BYTES_MAX);
    if (room == NULL) {
        return fault_at_output(run);
    }
    hr_sink_wrote(run->sink, hr_answer_released(released, room));
    return true;
}

static bool check(struct run *run, const struct hr_request_line *line)
{
    const struct hr_decision *decision = NULL;
    if (hr_replay_check(run->replay, &line->request, line->at_us, &decision, &run->problem) != HR_OK) {
        return fault_at_line(run);
    }
    if (run->summary != NULL) {
        hr_summary_count(run->summary, decision, line->request.peek);
        return true;
    }
    char *room = hr_sink_room(run->sink, HR_ANSWER_BYTES_MAX);
    if (room == NULL) {
        return fault_at_output(run);
    }
    hr_sink_wrote(run->sink, hr_answer_decision(decision, room));
    return true;
}

static bool answer_line(struct run *run, struct hr_span text)
{
    struct hr_request_line line;
    run->line_number++;
    if (hr_request_decode(run->decoder, text, run->line_number, &line, &run->problem) != HR_OK) {
        return fault_at_line(run);
    }
    return line.release_line != 0 ? release(run, &line) : check(run, &line);
}

static bool fill(struct run *run)
{
    enum hr_err err = hr_lines_fill(run->lines);
    if (err == HR_E_TOO_MANY) {
        run->line_number++;
        hr_problem_what(&run->problem, "a line may hold at most %zu bytes", HR_REQUEST_LINE_BYTES_MAX);
        return fault_at_line(run);
    }
    return err == HR_OK || fault_at_input(run, "cannot read the requests");
}

/* Answers all that the buffer holds, and sends the answers off before it waits for more: whoever types requests into a
 * pipe sees each answer at once. */
static bool answer_all(struct run *run)
{
    for (;;) {
        struct hr_span text;
        while (hr_lines_take(run->lines, &text)) {
            if (!answer_line(run, text)) {
                return false;
            }
        }
        if (run->lines->ended) {
            return true;
        }
        if (hr_sink_flush(run->sink) != HR_OK) {
            return fault_at_output(run);
        }
        if (!fill(run)) {
            return false;
        }
    }
}

static void print_summary(const struct run *run)
{
    if (run->options.json) {
        hr_summary_print_json(run->summary, stdout);
    } else {
        hr_summary_print(run->summary, stdout);
    }
}

/* Whatever stopped it, the answers to all earlier lines go out first. */
static bool run_replay(struct run *run)
{
    bool good = open_limits(run) && open_input(run) && open_buffers(run);
    if (!good) {
        return false;
    }
    good = answer_all(run);
    if (hr_sink_flush(run->sink) != HR_OK && good) {
        return fault_at_output(run);
    }
    if (good && run->summary != NULL) {
        print_summary(run);
    }
    return good;
}

int hr_cmd_replay(int argc, char **argv)
{
    int status = HR_EXIT_DONE;
    struct run run = {.options.counters_max = HR_REPLAY_COUNTERS_DEFAULT, .fd = -1};
    if (!parse_arguments(argc, argv, &run.options, &status)) {
        return status;
    }
    if (!run_replay(&run)) {
        status = hr_cmd_fail(&run.problem);
    }
    close_all(&run);
    return status;
}
