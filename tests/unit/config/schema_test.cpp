#include "tessera/schema.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "kernel/config/config.hpp"
#include "tests/unit/config/config_support.hpp"

namespace tessera {
namespace schema_test {

using testing::error_of;

struct Thing {
  static constexpr std::string_view kKind = "thing";
};

struct Part {
  std::string match = "*";
  double scale = 1;
  static void describe(Schema<Part>& s) {
    s.field("match", &Part::match, "names");
    s.field("scale", &Part::scale, "factor").above(0);
  }
};

struct Sample {
  bool flag = false;
  int small = 1;
  u64 seed = 7;
  double rate = 0.5;
  std::string word = "a";
  std::vector<i64> list = {1, 2};
  std::vector<double> betas = {0.9};
  std::vector<i64> steps = {1, 2};
  Auto<i64> count;
  Auto<double> weight;
  Component<Thing> slot{"plain"};
  std::map<std::string, Part> parts;
  i64 handed = 0, carried = 0;
  i64 upward = 0;
  i64 needed = 0;

  static void describe(Schema<Sample>& s) {
    s.field("flag", &Sample::flag, "");
    s.field("small", &Sample::small, "").at_least(1);
    s.field("seed", &Sample::seed, "").at_least(0);
    s.field("rate", &Sample::rate, "").at_least(0).below(1);
    s.field("word", &Sample::word, "").one_of({"a", "apple", "b"});
    s.field("list", &Sample::list, "").at_least(0);
    s.field("betas", &Sample::betas, "").above(0).at_most(1);
    s.field("steps", &Sample::steps, "").at_least(1).range();
    s.field("count", &Sample::count, "").at_most(8);
    s.field("weight", &Sample::weight, "", "by size").above(0);
    s.slot("slot", &Sample::slot, "");
    s.tables("parts", &Sample::parts, "");
    s.field("handed", &Sample::handed, "").given();
    s.field("carried", &Sample::carried, "").given().from("model.hidden");
    s.field("upward", &Sample::upward, "").from("model.hidden");
    s.field("needed", &Sample::needed, "how many").required();
  }
};

const FieldSpec& field(std::string_view name) {
  static const std::vector<FieldSpec> kFields = fields_of<Sample>();
  for (const FieldSpec& spec : kFields) {
    if (spec.name == name) return spec;
  }
  fail("no field {}", name);
}

TEST(FieldSpec, TypeText) {
  EXPECT_EQ(field("flag").type_text(), "boolean");
  EXPECT_EQ(field("small").type_text(), "integer >= 1");
  EXPECT_EQ(field("rate").type_text(), "float in [0, 1)");
  EXPECT_EQ(field("word").type_text(), R"("a" | "apple" | "b")");
  EXPECT_EQ(field("list").type_text(), "array of integer >= 0");
  EXPECT_EQ(field("betas").type_text(), "array of float in (0, 1]");
  EXPECT_EQ(field("steps").type_text(), "array of integer >= 1: first and last, in order");
  EXPECT_EQ(field("count").type_text(), "integer <= 8 | \"auto\"");
  EXPECT_EQ(field("weight").type_text(), "float > 0 | \"by size\"");
  EXPECT_EQ(field("slot").type_text(), "thing plugin");
  EXPECT_EQ(field("parts").type_text(), "tables");
  EXPECT_EQ(field("seed").type_text(), "integer >= 0");
}

struct Paths {
  std::string folder = "none";
  std::vector<std::string> files;
  Auto<std::string> cache;
  static void describe(Schema<Paths>& s) {
    s.field("folder", &Paths::folder, "").is_path({"none"});
    s.field("files", &Paths::files, "").is_path();
    s.field("cache", &Paths::cache, "").is_path();
  }
};

struct NoPath {
  std::vector<i64> count;
  static void describe(Schema<NoPath>& s) { s.field("count", &NoPath::count, "").is_path(); }
};

TEST(FieldSpec, PathsSayThatTheyAre) {
  const std::vector<FieldSpec> fields = fields_of<Paths>();
  EXPECT_EQ(fields[0].type_text(), "path | \"none\"");
  EXPECT_EQ(fields[1].type_text(), "array of path");
  EXPECT_EQ(fields[2].type_text(), "path | \"auto\"");
  EXPECT_EQ(error_of([&] { fields[0].checked(3); }), "expected path | \"none\", got 3");
  EXPECT_EQ(error_of([] { fields_of<NoPath>(); }),
            "the key count is_path(): its member must be a std::string, or a std::vector of them");
}

TEST(FieldSpec, InitialValuesAreTheMembers) {
  EXPECT_EQ(*field("list").initial, Value(Value::Array{1, 2}));
  EXPECT_EQ(*field("count").initial, Value("auto"));
  EXPECT_EQ(*field("weight").initial, Value("by size"));
  EXPECT_EQ(*field("slot").initial, Value("plain"));
  EXPECT_FALSE(field("needed").initial.has_value());
}

TEST(FieldSpec, CheckedConvertsIntegersToFloatsOnly) {
  EXPECT_EQ(field("rate").checked(0), Value(0.0));
  EXPECT_EQ(field("betas").checked(Value::Array{1, 0.5}), Value(Value::Array{1.0, 0.5}));
  EXPECT_EQ(field("count").checked("auto"), Value("auto"));
  EXPECT_EQ(field("weight").checked("by size"), Value("by size"));
  EXPECT_EQ(error_of([] { field("weight").checked("auto"); }),
            "expected float > 0 | \"by size\", got \"auto\"");
  EXPECT_EQ(error_of([] { field("small").checked(2.0); }), "expected integer >= 1, got 2.0");
  EXPECT_EQ(error_of([] { field("small").checked("2"); }), "expected integer >= 1, got \"2\"");
  EXPECT_EQ(error_of([] { field("flag").checked(1); }), "expected boolean, got 1");
  EXPECT_EQ(field("list").checked(1), Value(Value::Array{1}));  // one value: an array of one
  EXPECT_EQ(error_of([] { field("list").checked(-1); }), "expected array of integer >= 0, got -1");
}

TEST(FieldSpec, CheckedKnowsRangesAndChoices) {
  EXPECT_EQ(error_of([] { field("small").checked(0); }), "expected integer >= 1, got 0");
  EXPECT_EQ(error_of([] { field("rate").checked(1); }), "expected float in [0, 1), got 1");
  EXPECT_NO_THROW(field("rate").checked(0.0));
  EXPECT_EQ(error_of([] {
              field("betas").checked(Value::Array{0.5, 0.0});
            }),
            "expected array of float in (0, 1], got [0.5, 0.0]");
  EXPECT_EQ(field("steps").checked(Value::Array{2, 2}), Value(Value::Array{2, 2}));
  for (const Value::Array& wrong :
       {Value::Array{12, 10}, Value::Array{0, 2}, Value::Array{3}, Value::Array{1, 2, 3}}) {
    EXPECT_EQ(
        error_of([&] { field("steps").checked(wrong); }),
        "expected array of integer >= 1: first and last, in order, got " + Value(wrong).text());
  }
  EXPECT_EQ(error_of([] { field("word").checked("aple"); }),
            R"(expected "a" | "apple" | "b", got "aple"; did you mean "apple"?)");
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW(field("rate").checked(nan), ConfigError);
}

// A float whose field states no bound has one: FP32 holds it.
TEST(Fields, OfFloatsAreBounded) {
  struct Floats {
    double free = 0, positive = 1, huge = 1;
    static void describe(Schema<Floats>& s) {
      s.field("free", &Floats::free, "any");
      s.field("positive", &Floats::positive, "above nothing").above(0);
      s.field("huge", &Floats::huge, "states how large").at_least(0).at_most(1e20);
    }
  };
  const std::vector<FieldSpec> fields = fields_of<Floats>();
  const auto error = [&](std::size_t i, const Value& value) {
    return error_of([&] { fields[i].checked(value); });
  };
  EXPECT_EQ(fields[0].checked(-1e38), Value(-1e38));
  EXPECT_EQ(error(0, -1e39), "expected float, got -1e+39; a float is at most 1e+38 in size");
  EXPECT_EQ(error(1, 1e300), "expected float > 0, got 1e+300; a float is at most 1e+38 in size");
  EXPECT_EQ(error(1, -1e300), "expected float > 0, got -1e+300");
  EXPECT_EQ(fields[2].checked(1e19), Value(1e19));
  EXPECT_EQ(error(2, 1e21), "expected float in [0, 1e+20], got 1e+21");
  EXPECT_THAT(error(0, std::numeric_limits<double>::infinity()),
              ::testing::HasSubstr("at most 1e+38"));
}

Sample read(const std::string& text, const Given& given = {}) {
  const Config config = Config::parse(text, "s.toml");
  Sample out;
  read_fields(fields_of<Sample>(), *config.node("s"), given, &out);
  return out;
}

TEST(ReadFields, OwnThenGivenThenFromThenDefault) {
  const std::string model = "[model]\nhidden = 32\n";
  EXPECT_EQ(read("[s]\nneeded = 1").upward, 0);
  EXPECT_EQ(read("[s]\nneeded = 1\n" + model).upward, 32);
  EXPECT_EQ(read("[s]\nneeded = 1\n" + model, {{"upward", 5}}).upward, 5);
  EXPECT_EQ(read("[s]\nneeded = 1\nupward = 3\n" + model, {{"upward", 5}}).upward, 3);
  EXPECT_EQ(read("[s]\nneeded = 1", {{"handed", 9}}).handed, 9);
  EXPECT_EQ(read("", {{"needed", 2}}).needed, 2);
}

TEST(ReadFields, AllTypes) {
  const Sample s = read(R"([s]
flag = true
small = 5
seed = 11
rate = 0.25
word = "b"
list = [3]
betas = [1, 0.5]
count = 4
needed = 1
slot.type = "fancy"
[s.parts.head]
match = "head.*"
[s.parts.a]
scale = 2
)");
  EXPECT_TRUE(s.flag);
  EXPECT_EQ(s.small, 5);
  EXPECT_EQ(s.seed, 11U);
  EXPECT_EQ(s.rate, 0.25);
  EXPECT_EQ(s.word, "b");
  EXPECT_EQ(s.list, std::vector<i64>{3});
  EXPECT_EQ(s.betas, (std::vector<double>{1, 0.5}));
  EXPECT_EQ(s.count, 4);
  EXPECT_EQ(s.slot.type, "fancy");
  EXPECT_EQ(s.slot.path, "s.slot");
  ASSERT_EQ(s.parts.size(), 2U);
  EXPECT_EQ(s.parts.at("head").match, "head.*");
  EXPECT_EQ(s.parts.at("a").scale, 2);
}

TEST(ReadFields, SlotsHaveDefaultsThatParentsOverride) {
  EXPECT_EQ(read("[s]\nneeded = 1").slot.type, "plain");
  EXPECT_EQ(read("[s]\nneeded = 1").slot.path, "s.slot");
  EXPECT_EQ(read("[s]\nneeded = 1", {{"slot", "other"}}).slot.type, "other");
  EXPECT_EQ(read("[s]\nneeded = 1\nslot.type = \"own\"", {{"slot", "other"}}).slot.type, "own");
}

TEST(ReadFields, ErrorsNamePlaceAndKey) {
  EXPECT_EQ(error_of([] { read("[s]\nneeded = 1\nrate = 2"); }),
            "s.toml:3:8: [s] rate: expected float in [0, 1), got 2");
  EXPECT_EQ(error_of([] { read("[s]\n"); }),
            "[s] \"needed\" is missing: how many; expected integer");
  EXPECT_EQ(error_of([] { read("[s]\nneeded = 1\nhanded = 2"); }),
            "s.toml:3:10: [s] \"handed\" is set by the component around it; remove it");
  EXPECT_EQ(error_of([] { read("[s]\nneeded = 1\ncarried = 2\n[model]\nhidden = 4"); }),
            "s.toml:3:11: [s] \"carried\" is set by model.hidden; set that one");
  EXPECT_EQ(error_of([] { read("[s]\nneeded = 1\ncarried = 2"); }),
            "s.toml:3:11: [s] \"carried\" is set by the component around it; remove it");
  EXPECT_EQ(error_of([] {
              read("[s]\nneeded = 1", {{"rate", 3}});
            }),
            "set by its parent: [s] rate: expected float in [0, 1), got 3");
  EXPECT_EQ(error_of([] {
              read("[s]\nneeded = 1", {{"other", 3}});
            }),
            "[s] is given other = 3, but the component has no such field");
  EXPECT_EQ(error_of([] { read("[s]\nneeded = 1\nsmall = 5000000000"); }),
            "s.toml:3:9: [s] small: 5000000000 is out of range");
  EXPECT_EQ(error_of([] { read("[s]\nneeded = 1\n[s.parts.x]\nscale = 0"); }),
            "s.toml:4:9: [s.parts.x] scale: expected float > 0, got 0");
}

}  // namespace schema_test
}  // namespace tessera
