"""Help, versions and wrong usage."""

import cli

COMMANDS = ["bench", "check", "config", "explain", "limits", "local", "members", "peek", "refund", "release", "renew",
            "replay", "status", "test", "top"]


class Usage(cli.Case):
    def test_help_names_every_command(self):
        text = self.prints("--help")
        for command in COMMANDS:
            self.assertRegex(text, rf"(?m)^  {command} +\w")

    def test_every_command_has_help(self):
        for command in COMMANDS:
            self.assertTrue(self.prints(command, "--help").startswith(f"usage: headroom {command}"))

    def test_the_version_is_the_projects(self):
        self.assertRegex(self.prints("--version"), r"^headroom \d+\.\d+\.\d+\n$")

    def test_wrong_usage_is_one_line_and_status_2(self):
        for message, *arguments in [
            ("no command was given (see headroom --help)",),
            ("unknown command repaly (see headroom --help)", "repaly"),
            ("unknown option --limits (see headroom --help)", "--limits"),
            ("--limits FILE is missing (see headroom replay --help)", "replay"),
            ("unknown option --bogus (see headroom replay --help)", "replay", "--bogus"),
            ("unknown option -x (see headroom replay --help)", "replay", "-x"),
            ("option --limits needs a value (see headroom replay --help)", "replay", "--limits"),
            ("option --summary=1 takes no value (see headroom replay --help)", "replay", "--summary=1"),
            ("one requests file at a time, not also b (see headroom replay --help)",
             "replay", "--limits", "l", "a", "b"),
            ("no cases file was given (see headroom test --help)", "test"),
            ("unknown option --bogus (see headroom test --help)", "test", "--bogus", "x"),
        ]:
            with self.subTest(arguments=arguments):
                self.assertEqual(self.fails(2, message, *arguments), "")

    def test_counters_is_a_number_in_range(self):
        for value in ["0", "-1", "1.5", "1k", "", " 1", "1000000001", "99999999999999999999"]:
            with self.subTest(value=value):
                self.fails(2, "--counters must be a whole number from 1 to 1000000000 (see headroom replay --help)",
                           "replay", "--limits", "x", "--counters", value)

    def test_a_control_byte_in_a_name_stays_on_one_line(self):
        self.fails(2, "unknown command a?b (see headroom --help)", "a\nb")

    def test_output_that_cannot_be_written_is_an_error(self):
        with open("/dev/full", "w") as full:
            result = self.run_headroom("--help", stdout=full)
        self.assertEqual(result.returncode, 2)
        self.assertEqual(result.stderr, b"headroom: cannot write the output (standard output)\n")


if __name__ == "__main__":
    cli.main()
