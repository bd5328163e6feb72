"""The completions and the man page know the commands and options that there are."""
import os
import re
import subprocess

import cli


class Completion(cli.Case):
    def setUp(self):
        super().setUp()
        text = self.prints("--help")
        self.commands = re.findall(r"(?m)^  ([a-z]+) +\w", text)
        self.assertIn("check", self.commands)

    def options(self, command):
        return set(re.findall(r"(?m)^ +(--[a-z-]+)", self.prints(command, "--help")))

    def complete(self, *words):
        script = os.path.join(cli.SOURCE, "deploy", "completions", "headroom.bash")
        run = ('source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _headroom; '
               'printf "%s\\n" "${COMPREPLY[@]}"')
        result = subprocess.run(["bash", "-c", run, "bash", script, "headroom", *words], capture_output=True,
                                cwd=self.folder, timeout=60, check=True)
        self.assertEqual(result.stderr, b"")
        return set(result.stdout.decode().split())

    def read(self, *path):
        with open(os.path.join(cli.SOURCE, *path)) as file:
            return file.read()

    def test_bash_offers_every_command_and_no_other(self):
        self.assertEqual(self.complete(""), set(self.commands) | {"--help", "--version"})
        self.assertEqual(self.complete("re"), {"refund", "region", "release", "renew", "replay"})

    def test_bash_offers_every_option_and_no_other(self):
        for command in self.commands:
            with self.subTest(command=command):
                self.assertEqual(self.complete(command, "--"), self.options(command))

    def test_bash_offers_files_where_files_belong(self):
        self.write("limits.yaml", "")
        for words in (["replay", "--limits", ""], ["limits", "put", "l"], ["test", ""], ["config", "check", ""]):
            with self.subTest(words=words):
                self.assertEqual(self.complete(*words), {"limits.yaml"})
        self.assertEqual(self.complete("limits", ""), {"list", "get", "put", "delete"})

    def test_zsh_and_the_man_page_name_every_command_and_option(self):
        zsh = self.read("deploy", "completions", "_headroom")
        man = self.read("docs", "man", "headroom.1")
        for command in self.commands:
            with self.subTest(command=command):
                self.assertRegex(zsh, rf"(?m)^    ['\"]{command}:")
                self.assertRegex(man, rf"\.Cm (\w+ \| )?{command}\b")
                for option in self.options(command):
                    self.assertIn(option + "[", zsh)
                if command not in ("config", "replay", "test"):  # whose own --help is their manual
                    for option in self.options(command):
                        self.assertIn(f"Fl {option[1:]}", man)


if __name__ == "__main__":
    cli.main()
