#pragma once
#include <string>
#include <string_view>

#include "decoder_layouts_support.hpp"

// Documents, and prompts with answers, for trainings of a small decoder.
namespace tessera::testing::documents_support {

/// The prefix of a token file of short documents, "a" or "b", whose letters follow each other in a
/// way that can be learned.
std::string corpus(std::string_view name);
/// A file of prompts and answers that can be learned.
std::string instructions();

/// A decoder with rotary positions that reads the corpus "a", or what `data` says.
Sets decoder(const Sets& data);

inline const Sets kApart = {
    "data.reset_positions=true", "data.reset_attention=true", "data.mask_eod_loss=true"};
inline const Sets kUnseen = {"data.reset_attention=true", "data.mask_eod_loss=true"};
inline const Sets kPacked = {
    "data.reset_positions=true", "data.reset_attention=true", "data.pack=\"documents\""};
/// Both corpora.
Sets blend();
/// The data of a decoder that learns answers, packed or one a sample.
Sets answers(std::string_view pack);

inline const Sets kInterleaved = {"parallel.pipeline=2",
                                  "schedule.type=\"interleaved_1f1b\"",
                                  "schedule.chunks=2",
                                  "placement.layout=\"E|t|t|L\""};
inline const Sets kShards = {"parallel.data=2", "optimizer.type=\"distributed\""};

}  // namespace tessera::testing::documents_support
