"""`headroom config check`: which kind of file it is, and the files that a node file names."""
import cli

LIMITS = "limits:\n  - {name: a, algorithm: gcra, rate: 1/s}\n"
NODE = "node: {name: eu-1, region: eu, data: d}\n"


class Config(cli.Case):
    def test_a_limits_file_is_counted(self):
        path = self.write("l.yaml", LIMITS)
        self.assertEqual(self.prints("config", "check", path), "l.yaml: ok, 1 limit\n")
        self.assertEqual(self.prints("config", "check", "--json", path), '{"ok":true,"kind":"limits","limits":1}\n')

    def test_a_node_file_is_checked_with_its_limits(self):
        self.write("l.yaml", LIMITS)
        path = self.write("n.yaml", NODE + "limits: l.yaml\n")
        self.assertEqual(self.prints("config", "check", path),
                         "n.yaml: ok, node eu-1 in region eu\nl.yaml: ok, 1 limit\n")
        self.assertEqual(self.prints("config", "check", "--json", path),
                         '{"ok":true,"kind":"node","node":"eu-1","region":"eu","limits":1}\n')

    def test_limits_are_found_beside_the_node_file(self):
        self.write("l.yaml", LIMITS)
        self.write("n.yaml", NODE + "limits: l.yaml\n")
        self.assertEqual(self.prints("config", "check", self.folder + "/n.yaml").splitlines()[1],
                         self.folder + "/l.yaml: ok, 1 limit")

    def test_a_node_needs_no_limits(self):
        path = self.write("n.yaml", NODE)
        self.assertEqual(self.prints("config", "check", path), "n.yaml: ok, node eu-1 in region eu\n")

    def test_a_global_cap_of_fewer_than_the_regions_is_noted(self):
        self.write("l.yaml", "limits:\n"
                             "  - {name: small, algorithm: gcra, rate: 2/s, scope: global}\n"
                             "  - {name: large, algorithm: gcra, rate: 3/s, scope: global}\n"
                             "  - {name: here, algorithm: gcra, rate: 2/s}\n")
        path = self.write("n.yaml", NODE + "limits: l.yaml\nregions: {eu: {}, us: {}, ap: {}}\n")
        note = ("the global limit small holds 2 for 3 regions: fewer than regions, so none of them can be promised a "
                "reserve")
        self.assertEqual(self.prints("config", "check", path),
                         f"n.yaml: ok, node eu-1 in region eu\nl.yaml: ok, 3 limits\nnote: {note}\n")
        self.assertIn(f',"limits":3,"notes":["{note}"]}}', self.prints("config", "check", "--json", path))
        path = self.write("n.yaml", NODE + "limits: l.yaml\nregions: {eu: {}, us: {}}\n")
        self.assertNotIn("note", self.prints("config", "check", path))

    def test_what_is_hardly_meant_is_noted(self):
        path = self.write("n.yaml", NODE + 'listen: {gossip: "tcp://0.0.0.0:7401"}\ncluster: {secret_file: s}\n')
        note = "nodes on other machines cannot reach this one at 0.0.0.0 or ::; give its addresses in advertise"
        self.assertEqual(self.prints("config", "check", path),
                         f"n.yaml: ok, node eu-1 in region eu\nnote: {note}\n")
        self.assertIn(f',"limits":0,"notes":["{note}"]}}', self.prints("config", "check", "--json", path))

    def test_mistakes_name_the_file_they_are_in(self):
        self.write("bad.yaml", "limits: 3\n")
        for message, text in [
            ('node needs "name" (n.yaml:1:7)', "node: {}\n"),
            ("limits must be a list, not a single value (bad.yaml:1:9)", NODE + "limits: bad.yaml\n"),
            ("cannot open the file: No such file or directory (absent.yaml)", NODE + "limits: absent.yaml\n"),
            ('unknown key "colour" in a limits file; expected: limits (n.yaml:1:1)', "colour: red\n"),
            ("the file is empty (n.yaml:1:1)", ""),
        ]:
            with self.subTest(text=text):
                path = self.write("n.yaml", text)
                self.assertEqual(self.fails(2, message, "config", "check", path), "")
                self.assertEqual(self.fails(2, message, "config", "check", "--json", path), "")

    def test_it_checks_one_file_that_is_there(self):
        for message, *arguments in [
            ("config can only check: config check FILE (see headroom config --help)",),
            ("config can only check: config check FILE (see headroom config --help)", "print", "f"),
            ("no file was given (see headroom config --help)", "check"),
            ("one file at a time (see headroom config --help)", "check", "a", "b"),
            ("cannot open the file: No such file or directory (absent)", "check", "absent"),
            ("the name of the file is empty (see headroom config --help)", "check", ""),
        ]:
            with self.subTest(arguments=arguments):
                self.fails(2, message, "config", *arguments)


if __name__ == "__main__":
    cli.main()
