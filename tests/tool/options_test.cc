#include "tools/rserve/options.h"

#include <string>
#include <vector>

#include "tests/support/catch.h"

namespace rserve::tool {
namespace {

struct Parsed {
  std::string model;
  std::vector<std::string> images;
  std::vector<std::string> list = {"a"};
  std::string text = "none";
  int64_t count = 3;
  double rate = 0.5;
  int64_t bytes = 1 << 20;
  bool draw = true;
  bool force = false;
};

void Declare(OptionTable* table, Parsed* p) {
  table->Positional("MODEL", &p->model, "the model's folder");
  table->Strings("image", "FILE", &p->images, "a picture");
  table->List("schemes", "LIST", &p->list, "schemes");
  table->String("text", "TEXT", &p->text, "some text");
  table->Int("count", "N", 1, 10, &p->count, "how many");
  table->Real("rate", "R", 0, 1, &p->rate, "how fast");
  table->Bytes("cache", &p->bytes, "how large");
  table->Switch("draw", &p->draw, "do not draw");
  table->Switch("force", &p->force, "write over");
}

absl::Status Parse(const std::vector<std::string>& args, Parsed* p) {
  OptionTable table;
  Declare(&table, p);
  return table.Parse(args);
}

std::string Refusal(const std::vector<std::string>& args) {
  Parsed p;
  return std::string(Parse(args, &p).message());
}

TEST_CASE("values come behind a space or an equals sign, in any order with positionals") {
  Parsed p;
  REQUIRE(Parse({"--count=7", "m", "--image", "a.png", "--image=b.png", "--schemes", "x, y",
                 "--text=", "--rate", "0.25", "--cache", "2M", "--no-draw", "--force"},
                &p)
              .ok());
  CHECK(p.model == "m");
  CHECK(p.images == std::vector<std::string>{"a.png", "b.png"});
  CHECK(p.list == std::vector<std::string>{"x", "y"});
  CHECK(p.text.empty());
  CHECK(p.count == 7);
  CHECK(p.rate == 0.25);
  CHECK(p.bytes == 2 << 20);
  CHECK_FALSE(p.draw);
  CHECK(p.force);
}

TEST_CASE("a positional may be given by its name, and -- ends the options") {
  Parsed p;
  REQUIRE(Parse({"--model", "dir"}, &p).ok());
  CHECK(p.model == "dir");
  Parsed q;
  REQUIRE(Parse({"--", "--odd"}, &q).ok());
  CHECK(q.model == "--odd");
}

TEST_CASE("an option that was not given keeps its default") {
  Parsed p;
  REQUIRE(Parse({"m"}, &p).ok());
  CHECK(p.count == 3);
  CHECK(p.list == std::vector<std::string>{"a"});
  CHECK(p.draw);
}

TEST_CASE("a refusal names the option, the value and the limits") {
  CHECK(Refusal({"m", "--count", "11"}) == "--count: 11 is not within 1 .. 10");
  CHECK(Refusal({"m", "--count", "x"}) == "--count: 'x' is not a whole number");
  CHECK(Refusal({"m", "--count"}) == "--count needs a value (N)");
  CHECK(Refusal({"m", "--rate=nan"}) == "--rate: 'nan' is not a number");
  CHECK(Refusal({"m", "--rate=2"}) == "--rate: 2 is not within 0 .. 1");
  CHECK(Refusal({"m", "--cout", "1"}) == "unknown option --cout (did you mean --count?)");
  CHECK(Refusal({"m", "--nothing-like-it"}) == "unknown option --nothing-like-it");
  CHECK(Refusal({"m", "-c"}) == "unknown option -c (options begin with two dashes)");
  CHECK(Refusal({"m", "--force=1"}) == "--force takes no value");
  CHECK(Refusal({"m", "--no-count"}) == "unknown option --no-count");
  CHECK(Refusal({"m", "n"}) == "'n' is one argument too many");
  CHECK(Refusal({}) == "MODEL is missing: the model's folder");
  CHECK(Refusal({"m", "--schemes", "a,,b"}) == "--schemes: 'a,,b' is not a comma-separated list");
  CHECK(Refusal({"m", "--cache", "12Q"}) ==
        "--cache: '12Q' is not a number of bytes (like 1048576, 64M or 2G)");
}

TEST_CASE("sizes in bytes know suffixes and refuse overflow") {
  int64_t bytes = 0;
  REQUIRE(ParseBytes("3k", &bytes).ok());
  CHECK(bytes == 3072);
  REQUIRE(ParseBytes("1G", &bytes).ok());
  CHECK(bytes == int64_t{1} << 30);
  CHECK_FALSE(ParseBytes("9999999999G", &bytes).ok());
  CHECK_FALSE(ParseBytes("-1", &bytes).ok());
  CHECK_FALSE(ParseBytes("", &bytes).ok());
}

TEST_CASE("picture sizes are two positive numbers around an x") {
  int64_t width = 0, height = 0;
  REQUIRE(ParseSize("640x480", &width, &height).ok());
  CHECK(width == 640);
  CHECK(height == 480);
  for (const char* bad : {"640", "0x5", "5x", "5x5x5", "-1x4", "99999999x1"}) {
    CAPTURE(bad);
    CHECK_FALSE(ParseSize(bad, &width, &height).ok());
  }
}

TEST_CASE("help lists every option with its default and keeps within 100 columns") {
  Parsed p;
  OptionTable table;
  Declare(&table, &p);
  const std::string help = table.Help();
  CAPTURE(help);
  for (const char* text :
       {"MODEL", "--image FILE", "--count N", "[3]", "[0.5]", "[1 MiB]", "--no-draw", "--force"}) {
    CHECK(help.find(text) != std::string::npos);
  }
  size_t begin = 0;
  while (begin < help.size()) {
    const size_t end = help.find('\n', begin);
    CHECK(end - begin <= 100);
    begin = end + 1;
  }
}

}  // namespace
}  // namespace rserve::tool
