#include <stdio.h>

#include "node/command/ask.h"
#include "rpc/hex.h"

static const char release_help[] =
    "usage: headroom release LEASE [OPTION...]\n"
    "\n"
    "Ends a lease of a concurrency limit, 32 hexadecimal digits as headroom check printed them.\n"
    "\n" HR_ASK_HELP "\n"
    "Exit status: 0 released, 1 there is no such lease (any more), 2 wrong usage, 3 the node did not answer.\n";

static const char renew_help[] =
    "usage: headroom renew LEASE [OPTION...]\n"
    "\n"
    "Gives a lease of a concurrency limit its whole time to live again.\n"
    "\n" HR_ASK_HELP "\n"
    "Exit status: 0 renewed, 1 there is no such lease (any more), 2 wrong usage, 3 the node did not answer.\n";

static int ask_about_lease(int argc, char **argv, const char *help, const struct hr_ask_flag *flag)
{
    static const struct option options[] = {HR_ASK_OPTIONS};
    struct hr_ask ask = HR_ASK_INIT(argv[0]);
    struct hr_params params = {.present = HR_PARAM_BIT(HR_PARAM_LEASE)};
    int status = HR_EXIT_DONE;
    if (hr_ask_option(&ask, argc, argv, options, help, &status) != HR_OPTION_END) {
        return status;
    }
    if (argc - optind != 1) {
        return hr_cmd_usage(argv[0], argc == optind ? "no lease was given" : "one lease at a time");
    }
    if (!hr_hex_read(hr_span_of(argv[optind]), &params.lease)) {
        return hr_cmd_usage(argv[0], "a lease must be 32 hexadecimal digits, not \"%s\"", argv[optind]);
    }
    return hr_ask_flag(&ask, &params, flag);
}

int hr_cmd_release(int argc, char **argv)
{
    static const struct hr_ask_flag flag = {HR_METHOD_RELEASE, "released", "released", "there is no such lease"};
    return ask_about_lease(argc, argv, release_help, &flag);
}

int hr_cmd_renew(int argc, char **argv)
{
    static const struct hr_ask_flag flag = {HR_METHOD_RENEW, "renewed", "renewed", "there is no such lease"};
    return ask_about_lease(argc, argv, renew_help, &flag);
}
