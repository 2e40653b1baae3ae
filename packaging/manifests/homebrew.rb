class Dmv < Formula
  desc "Version control for projects with files of any size"
  homepage "@HOMEPAGE@"
  url "@URL@"
  version "@VERSION@"
  sha256 "@SHA256@"
  license any_of: ["MIT", "Apache-2.0"]

  depends_on "rust" => :build

  def install
    system "cargo", "install", *std_cargo_args(path: "crates/dmv-cli")
    generate_completions_from_executable(bin/"dmv", "completions")
    system bin/"dmv", "man", "--to", man1
  end

  test do
    system bin/"dmv", "init", testpath/"project"
    (testpath/"project/file.txt").write "content"
    system bin/"dmv", "-C", testpath/"project", "commit", "-m", "first"
    assert_match "first", shell_output("#{bin}/dmv -C #{testpath}/project log")
  end
end
