#include <stdio.h>

#include "base/defect.h"
#include "chaos/check.h"
#include "chaos/cmd_chaos.h"
#include "chaos/scenario.h"
#include "chaos/schedule.h"

static const char help[] =
    "usage: headroom-chaos list\n"
    "\n"
    "Prints the scenarios of `headroom-chaos run`; and for `headroom-chaos sim` the faults that can strike a\n"
    "cluster, and the invariants that must hold all the same.\n"
    "\n"
    "  --help     print this\n"
    "  --version  print the version\n";

static void print_scenarios(void)
{
    static struct hr_scenario scenario;
    struct hr_problem problem;
    (void)puts("scenarios on real processes (run SCENARIO):");
    for (uint32_t i = 0; i < hr_scenario_count; i++) {
        bool is_read = hr_scenario_parse(hr_scenarios[i].text, hr_scenarios[i].name, &scenario, &problem);
        (void)printf("  %-16s %s\n", hr_scenarios[i].name, is_read ? scenario.about : problem.what);
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

int hr_chaos_list(int argc, char **argv)
{
    static const struct option table[] = {HR_OPTIONS_COMMON};
    int status = HR_EXIT_DONE;
    if (hr_cmd_option(argc, argv, table, help, &status) == HR_OPTION_EXIT) {
        return status;
    }
    if (optind < argc) {
        return hr_cmd_usage(argv[0], "list takes no argument, not %s", argv[optind]);
    }
    print_scenarios();
    print_strikes();
    print_checks();
    print_defects();
    return HR_EXIT_DONE;
}
