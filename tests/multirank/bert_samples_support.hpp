#pragma once
#include "decoder_layouts_support.hpp"
#include "tessera/plugin.hpp"

// Samples of two segments, for trainings of a small BERT.
namespace tessera::testing::bert_samples {

/// Registers the dataset "test_pairs": letters that follow each other, of which some are masked, in
/// two segments; labels that tell how the second one goes on. Its key `goal` chooses the fields
/// that a head needs: "masked", "label", "choice" (samples of four parts that do not see each
/// other) or "span". With `padding` up to half of a sample is padding.
void register_pairs(Registrar& registrar);

/// A small BERT that reads them: `order` is "pre" or "post".
Sets bert(std::string_view order, const Sets& more = {});
inline const Sets kPadded = {"data.padding=true"};
/// Of positions of a sample, unless a test says otherwise.
inline constexpr int kSequence = 16;

}  // namespace tessera::testing::bert_samples
