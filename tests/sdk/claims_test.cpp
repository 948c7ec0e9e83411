// Each key of a file of another program is used, harmless, refused, or an error.
#include "tessera/io/claims.hpp"

#include <gmock/gmock.h>

#include "common/error_of.hpp"
#include "tessera/converter.hpp"
#include "tessera/error.hpp"

namespace tessera {
namespace claims_test {

template <class F>
std::string refused(F&& f) {
  return testing::error_of<ConfigError>(f);
}

Claims claims_of(const std::string& json) { return {"c.json", parse_settings(json, "c.json")}; }

TEST(Claims, WhatNobodyKnowsIsAnErrorWithItsValue) {
  Claims claims =
      claims_of(R"({"layers": 2, "bits": {"of": 4}, "cache": true, "s_a": 1, "s_b": 2})");
  EXPECT_EQ(claims.integer("layers"), 2);
  claims.harmless({"cache", "s_*", "absent"});
  EXPECT_EQ(
      refused([&] { claims.require_known("the reader"); }),
      "c.json has bits.of = 4, which the reader does not know: remove what changes nothing in "
      "the model");
  claims.harmless({"bits*"});
  EXPECT_EQ(refused([&] { claims.require_known("the reader"); }), "");
}

TEST(Claims, AValueThatIsNotTakenIsNamed) {
  Claims claims =
      claims_of(R"({"scale": false, "word": "x", "map": {"a": "b"}, "none": null, "whole": 1})");
  claims.only("absent", 3);
  claims.only("whole", 1.0);  // one number
  claims.only("none", 3);     // null says nothing
  EXPECT_EQ(refused([&] { claims.only("scale", true); }),
            "c.json has scale = false; only true is supported");
  EXPECT_EQ(refused([&] { claims.integer("word"); }),
            "c.json: \"word\" is \"x\", which is not an integer");
  EXPECT_EQ(refused([&] { claims.flag("word", true); }),
            "c.json: \"word\" is \"x\", neither true nor false");
  EXPECT_EQ(refused([&] { claims.get("layers"); }), "c.json has no \"layers\"");
  EXPECT_EQ(refused([&] { claims_of(R"({"a\nb": "x"})").integer("a\nb"); }),
            R"(c.json: "a\nb" is "x", which is not an integer)");
  EXPECT_EQ(claims.get("layers", 7), Value(7));
  EXPECT_EQ(refused([&] { claims.refuse("map*", "maps are not read"); }),
            "c.json has map.a = \"b\": maps are not read");
}

TEST(Claims, KeysOfAnyModelAreKnownOrRefused) {
  Claims claims = claims_of(
      R"({"architectures": ["A"], "id2label": {"0": "A"}, "eos_token_id": [1, 2], "dtype": "x"})");
  claim_common_keys(claims, {"A", "B"});
  EXPECT_EQ(refused([&] { claims.require_known("it"); }), "");
  Claims quantized = claims_of(R"({"quantization_config": {"bits": 4}})");
  EXPECT_EQ(refused([&] { claim_common_keys(quantized, {}); }),
            "c.json has quantization_config.bits = 4: quantized models are not read");
  Claims other = claims_of(R"({"architectures": ["A", "X"]})");
  EXPECT_EQ(refused([&] {
              claim_common_keys(other, {"A", "B"});
            }),
            R"(c.json has architectures = ["A", "X"]; the converter reads A and B)");
}

}  // namespace claims_test
}  // namespace tessera
