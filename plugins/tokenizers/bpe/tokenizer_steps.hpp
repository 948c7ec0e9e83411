#pragma once
#include <optional>
#include <vector>

#include "json_part.hpp"
#include "tokenizer_file.hpp"

namespace tessera {

/// The steps of a part of tokenizer.json, those of sequences after each other. Throw ConfigError
/// naming what is not known.
std::vector<NormalizerStep> normalizer_steps(const JsonPart& part);
std::vector<SplitStep> split_steps(const JsonPart& part);
std::optional<std::vector<DecoderStep>> decoder_steps(const JsonPart& part);
/// What is put around a text changes no ids here, but must be known.
void require_known_post_processor(const JsonPart& part);

}  // namespace tessera
