#include <stdio.h>

#include "base/defect.h"
#include "chaos/check.h"
#include "chaos/cmd_chaos.h"
#include "chaos/scenario.h"
#include "chaos/schedule.h"
#include "node/value_text.h"

static const char help[] =
    "usage: headroom-chaos list [--json]\n"
    "\n"
    "Prints the scenarios of `headroom-chaos run`; and for `headroom-chaos sim` the faults that can strike a\n"
    "cluster, and the invariants that must hold all the same.\n"
    "\n"
    "  --json     print the same as JSON, on one line\n"
    "  --help     print this\n"
    "  --version  print the version\n";

/* The second line: of what cluster, and what must hold besides the cap. */
static void print_wants(const struct hr_scenario *scenario)
{
    (void)printf("  %-16s %s: %u nodes each, %lld s;", "", scenario->regions, scenario->nodes_each,
                 (long long)(scenario->lasts / HR_NS_PER_S));
    if (scenario->reserve_part_ppm > 0) {
        (void)printf(" %u %% of each reserve,", scenario->reserve_part_ppm / 10000);
    }
    (void)printf(" %u %% of the answers, well again within %lld s\n", scenario->answers_ppm / 10000,
                 (long long)(scenario->heals / HR_NS_PER_S));
}

static void print_scenarios(void)
{
    static struct hr_scenario scenario;
    struct hr_problem problem;
    (void)puts("scenarios on real processes (run SCENARIO); of all, the cap must hold, and no node end by itself:");
    for (uint32_t i = 0; i < hr_scenario_count; i++) {
        bool is_read = hr_scenario_parse(hr_scenarios[i].text, hr_scenarios[i].name, &scenario, &problem);
        (void)printf("  %-16s %s\n", hr_scenarios[i].name, is_read ? scenario.about : problem.what);
        if (is_read) {
            print_wants(&scenario);
        }
    }
}

static void print_strikes(void)
{
    (void)puts("\nfaults (a schedule's line: FROM_MS FOR_MS KIND PLACE [PLACE] [NUMBER]):");
    for (enum hr_strike strike = 0; strike < HR_STRIKE_COUNT; strike++) {
        const struct hr_strike_form *form = &hr_strike_forms[strike];
        char number[16] = "";
        if (form->unit[0] != '\0') {
            (void)snprintf(number, sizeof(number), ", in %s", form->unit);
        }
        (void)printf("  %-12s %s%s\n", form->name, form->text, number);
    }
}

static void print_checks(void)
{
    (void)puts("\ninvariants:");
    for (enum hr_check check = 0; check < HR_CHECK_COUNT; check++) {
        (void)printf("  %-24s %s\n", hr_check_forms[check].name, hr_check_forms[check].text);
    }
}

#ifdef HEADROOM_DEFECTS
static void print_defects(void)
{
    (void)puts("\ndefects of this build (sim --defect NAME):");
    for (enum hr_defect defect = HR_DEFECT_NONE + 1; defect < HR_DEFECT_COUNT; defect++) {
        (void)printf("  %-24s %s\n", hr_defect_forms[defect].name, hr_defect_forms[defect].text);
    }
}
#else
static void print_defects(void)
{
}
#endif

/* --- as JSON --- */

static void print_named(bool is_first, const char *name, const char *about)
{
    (void)printf("%s{\"name\":\"%s\",\"about\":", is_first ? "" : ",", name); /* names are ours, and plain */
    hr_text_print_json(stdout, hr_span_of(about));
}

static void print_scenarios_json(void)
{
    static struct hr_scenario scenario;
    struct hr_problem problem;
    for (uint32_t i = 0; i < hr_scenario_count; i++) {
        bool is_read = hr_scenario_parse(hr_scenarios[i].text, hr_scenarios[i].name, &scenario, &problem);
        print_named(i == 0, hr_scenarios[i].name, is_read ? scenario.about : problem.what);
        (void)putchar('}');
    }
}

static void print_strikes_json(void)
{
    for (enum hr_strike strike = 0; strike < HR_STRIKE_COUNT; strike++) {
        const struct hr_strike_form *form = &hr_strike_forms[strike];
        print_named(strike == 0, form->name, form->text);
        (void)printf(",\"places\":%u", form->places);
        if (form->unit[0] != '\0') {
            (void)printf(",\"unit\":\"%s\"", form->unit);
        }
        (void)putchar('}');
    }
}

static void print_checks_json(void)
{
    for (enum hr_check check = 0; check < HR_CHECK_COUNT; check++) {
        print_named(check == 0, hr_check_forms[check].name, hr_check_forms[check].text);
        (void)putchar('}');
    }
}

static void print_json(void)
{
    (void)fputs("{\"scenarios\":[", stdout);
    print_scenarios_json();
    (void)fputs("],\"faults\":[", stdout);
    print_strikes_json();
    (void)fputs("],\"invariants\":[", stdout);
    print_checks_json();
    (void)puts("]}");
}

static void print(void)
{
    print_scenarios();
    print_strikes();
    print_checks();
    print_defects();
}

int hr_chaos_list(int argc, char **argv)
{
    enum { JSON = HR_OPTION_OWN };
    static const struct option table[] = {{"json", no_argument, NULL, JSON}, HR_OPTIONS_COMMON};
    int option = 0, status = HR_EXIT_DONE;
    bool is_json = false;
    while ((option = hr_cmd_option(argc, argv, table, help, &status)) != HR_OPTION_END) {
        if (option == HR_OPTION_EXIT) {
            return status;
        }
        is_json = true;
    }
    if (optind < argc) {
        return hr_cmd_usage(argv[0], "list takes no argument, not %s", argv[optind]);
    }
    (is_json ? print_json : print)();
    return HR_EXIT_DONE;
}
