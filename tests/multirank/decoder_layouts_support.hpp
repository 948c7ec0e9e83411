#pragma once
#include <gtest/gtest.h>

#include "invariant_support.hpp"
#include "layouts_support.hpp"

// Layouts of the tests of decoders, and what each of them has to show.
namespace tessera::testing::decoder_layouts {

inline const std::string kRows = "parallel.sequence_parallel=true";
inline const Sets kTensor = {"parallel.tensor=2"};
inline const Sets kContext = {"parallel.context=2"};

inline Sets method(std::string_view name) {
  return {fmt::format("model.block.attention.context=\"{}\"", name)};
}

struct Row {
  std::string name;
  Sets sets;
  Sets model = {};  ///< over the decoder's own
};

inline void expect_one_loss_curve(const Sets& decoder, const Row& row) {
  const Findings found = check_invariant(plugins(), row.sets, with(decoder, row.model));
  EXPECT_TRUE(found.none()) << text(found);
}

inline void expect_as_near_as_one_rank(const Sets& decoder, const Row& row) {
  const Findings found =
      check_narrow(plugins(), {"bf16", "cpu"}, row.sets, Rounding::other, with(decoder, row.model));
  EXPECT_TRUE(found.none()) << text(found);
}

inline std::string name_of(const ::testing::TestParamInfo<Row>& info) { return info.param.name; }

}  // namespace tessera::testing::decoder_layouts
