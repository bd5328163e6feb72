#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chaos/cmd_chaos.h"
#include "chaos/results_jansson.h"
#include "node/value_text.h"

static const char help[] =
    "usage: headroom-chaos report [--json] [FILE...]\n"
    "\n"
    "Sums up what `sim --json` and `run --json` have printed into the FILEs, or on standard input: how many\n"
    "clusters were simulated for how long under which faults, how often each invariant was looked at, which\n"
    "runs failed and how to repeat them; and of each scenario on real processes bound, measured, verdict.\n"
    "The page of a single run is made by the run itself: sim and run take --report FILE.html.\n"
    "\n"
    "  --json     print the sum as JSON, on one line\n"
    "  --help     print this\n"
    "  --version  print the version\n"
    "\n"
    "Exit status: 0 everything held, 1 something was violated, 2 wrong usage or invalid input.\n";

enum { JSON = HR_OPTION_OWN };

/* --- reading --- */

static bool fail_line(struct hr_problem *problem, const char *path, uint64_t line, enum hr_err err)
{
    hr_problem_what(problem, err == HR_E_TOO_MANY ? "too many results" : "not what sim --json or run --json prints");
    hr_problem_where(problem, "%s:%" PRIu64, path, line);
    return false;
}

static bool add_lines(struct hr_results *results, FILE *in, const char *path, struct hr_problem *ret_problem)
{
    char *line = malloc(HR_RESULTS_LINE_BYTES_MAX); /* touched no further than the lines are long */
    bool is_good = line != NULL;
    uint64_t number = 0;
    hr_problem_set(ret_problem, path, "no memory for a line");
    while (is_good && fgets(line, (int)HR_RESULTS_LINE_BYTES_MAX, in) != NULL) {
        enum hr_err err = hr_results_add(results, hr_span_of(line));
        number++;
        is_good = err == HR_OK || fail_line(ret_problem, path, number, err);
    }
    free(line);
    if (is_good && ferror(in)) {
        return hr_problem_errno(ret_problem, path, "cannot read the file");
    }
    return is_good;
}

static bool add_file(struct hr_results *results, const char *path, struct hr_problem *ret_problem)
{
    FILE *in = fopen(path, "re");
    if (in == NULL) {
        return hr_problem_errno(ret_problem, path, "cannot open the file");
    }
    bool is_good = add_lines(results, in, path, ret_problem);
    (void)fclose(in); /* it was only read */
    return is_good;
}

static bool read_all(struct hr_results *results, int count, char **paths, struct hr_problem *ret_problem)
{
    bool is_good = count > 0 || add_lines(results, stdin, "standard input", ret_problem);
    for (int i = 0; i < count && is_good; i++) {
        is_good = add_file(results, paths[i], ret_problem);
    }
    if (is_good && results->sims == 0 && results->scenario_count == 0) {
        return hr_problem_set(ret_problem, count == 1 ? paths[0] : "", "there is no result");
    }
    return is_good;
}

/* --- for people --- */

static void print_strikes(const struct hr_results *results)
{
    bool is_first = true;
    (void)fputs("faults: ", stdout);
    for (enum hr_strike strike = 0; strike < HR_STRIKE_COUNT; strike++) {
        if (results->strikes[strike] > 0) {
            (void)printf("%s%s %" PRIu64, is_first ? "" : ", ", hr_strike_forms[strike].name, results->strikes[strike]);
            is_first = false;
        }
    }
    (void)puts(is_first ? "none" : "");
}

static void print_sims(const struct hr_results *results)
{
    (void)printf("%" PRIu64 " simulated clusters, %" PRIu64 ".%" PRIu64 " hours, %" PRIu64 " failed\n", results->sims,
                 results->seconds / 3600, results->seconds % 3600 / 360, results->sims_failed);
    (void)printf("asked %" PRIu64 ", admitted %" PRIu64 ", denied %" PRIu64 ", refused %" PRIu64 ", lost %" PRIu64
                 "; crashes %" PRIu64 "\n",
                 results->asked, results->admitted, results->denied, results->refused, results->lost, results->crashes);
    print_strikes(results);
    for (enum hr_check check = 0; check < HR_CHECK_COUNT; check++) {
        uint64_t violated = results->violated[check], checked = results->checked[check];
        const char *word = violated > 0 ? "VIOLATED" : checked > 0 ? "held" : "not asked";
        (void)printf("  %-24s %-9s %14" PRIu64 " checks", hr_check_forms[check].name, word, checked);
        (void)(violated > 0 ? printf(", %" PRIu64 " violations\n", violated) : putchar('\n'));
    }
    for (uint32_t i = 0; i < results->failure_count; i++) {
        (void)printf("%s\n# %s: %s\n", i == 0 ? "\nfailed; repeat it with" : "", results->failures[i].check,
                     results->failures[i].command);
    }
}

static void print_scenarios(const struct hr_results *results)
{
    (void)printf("%-16s %-10s %-34s %-26s %s\n", "scenario", "check", "bound", "measured", "verdict");
    for (uint32_t i = 0; i < results->scenario_count; i++) {
        const struct hr_results_scenario *scenario = &results->scenarios[i];
        for (uint32_t k = 0; k < scenario->check_count; k++) {
            const struct hr_results_check *check = &scenario->checks[k];
            (void)printf("%-16s %-10s %-34s %-26s %s\n", k == 0 ? scenario->name : "", check->name, check->bound,
                         check->measured, check->is_held ? "held" : "VIOLATED");
        }
    }
}

static void print(const struct hr_results *results)
{
    if (results->sims > 0) {
        print_sims(results);
    }
    if (results->sims > 0 && results->scenario_count > 0) {
        (void)putchar('\n');
    }
    if (results->scenario_count > 0) {
        print_scenarios(results);
    }
}

/* --- as JSON --- */

static void print_text(const char *key, const char *text)
{
    (void)printf("\"%s\":", key);
    hr_text_print_json(stdout, hr_span_of(text));
}

static void print_sims_json(const struct hr_results *results)
{
    (void)printf("{\"clusters\":%" PRIu64 ",\"failed\":%" PRIu64 ",\"seconds\":%" PRIu64 ",\"asked\":%" PRIu64
                 ",\"admitted\":%" PRIu64 ",\"denied\":%" PRIu64 ",\"refused\":%" PRIu64 ",\"lost\":%" PRIu64
                 ",\"crashes\":%" PRIu64 ",\"faults\":{",
                 results->sims, results->sims_failed, results->seconds, results->asked, results->admitted,
                 results->denied, results->refused, results->lost, results->crashes);
    for (enum hr_strike strike = 0; strike < HR_STRIKE_COUNT; strike++) {
        (void)printf("%s\"%s\":%" PRIu64, strike > 0 ? "," : "", hr_strike_forms[strike].name,
                     results->strikes[strike]);
    }
    (void)fputs("},\"invariants\":[", stdout);
    for (enum hr_check check = 0; check < HR_CHECK_COUNT; check++) {
        (void)printf("%s{\"name\":\"%s\",\"checked\":%" PRIu64 ",\"violated\":%" PRIu64 "}", check > 0 ? "," : "",
                     hr_check_forms[check].name, results->checked[check], results->violated[check]);
    }
    (void)fputs("],\"failures\":[", stdout);
    for (uint32_t i = 0; i < results->failure_count; i++) {
        (void)printf("%s{\"check\":\"%s\",", i > 0 ? "," : "", results->failures[i].check);
        print_text("command", results->failures[i].command);
        (void)putchar('}');
    }
    (void)fputs("]}", stdout);
}

static void print_scenario_json(const struct hr_results_scenario *scenario)
{
    (void)putchar('{');
    print_text("scenario", scenario->name);
    (void)fputs(",\"checks\":[", stdout);
    for (uint32_t i = 0; i < scenario->check_count; i++) {
        const struct hr_results_check *check = &scenario->checks[i];
        (void)fputs(i > 0 ? ",{" : "{", stdout);
        print_text("check", check->name);
        (void)putchar(',');
        print_text("bound", check->bound);
        (void)putchar(',');
        print_text("measured", check->measured);
        (void)printf(",\"held\":%s}", check->is_held ? "true" : "false");
    }
    (void)printf("],\"held\":%s}", scenario->is_held ? "true" : "false");
}

static void print_json(const struct hr_results *results)
{
    (void)fputs("{\"sim\":", stdout);
    print_sims_json(results);
    (void)fputs(",\"run\":[", stdout);
    for (uint32_t i = 0; i < results->scenario_count; i++) {
        (void)fputs(i > 0 ? "," : "", stdout);
        print_scenario_json(&results->scenarios[i]);
    }
    (void)printf("],\"held\":%s}\n", hr_results_held(results) ? "true" : "false");
}

int hr_chaos_report(int argc, char **argv)
{
    static const struct option table[] = {{"json", no_argument, NULL, JSON}, HR_OPTIONS_COMMON};
    struct hr_results results = {0};
    struct hr_problem problem;
    bool is_json = false;
    int option = 0, status = HR_EXIT_DONE;
    while ((option = hr_cmd_option(argc, argv, table, help, &status)) != HR_OPTION_END) {
        if (option == HR_OPTION_EXIT) {
            return status;
        }
        is_json = true;
    }
    if (read_all(&results, argc - optind, argv + optind, &problem)) {
        (is_json ? print_json : print)(&results);
        status = hr_results_held(&results) ? HR_EXIT_DONE : HR_EXIT_FAILED;
    } else {
        status = hr_cmd_fail(&problem);
    }
    hr_results_deinit(&results);
    return status;
}
