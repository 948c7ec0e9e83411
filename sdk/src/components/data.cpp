#include "tessera/data.hpp"
#include "sdk/src/components/contract.hpp"
#include "sdk/src/shared/component_call.hpp"
#include "tessera/converter.hpp"
#include "tessera/evaluation.hpp"
#include "tessera/observer.hpp"

namespace tessera {

namespace {

class OneByOne final : public TextEncoder {
 public:
  OneByOne(const Tokenizer& tokenizer, SpecialTexts special)
      : tokenizer_(tokenizer), special_(special) {}
  void append(std::string_view text, std::vector<i32>& ids) override {
    const std::vector<i32> added = tokenizer_.encode(text, special_);
    ids.insert(ids.end(), added.begin(), added.end());
  }

 private:
  const Tokenizer& tokenizer_;
  SpecialTexts special_;
};

}  // namespace

TextEncoder::~TextEncoder() = default;

i64 Tokenizer::vocabulary() const {
  return call_component(
      *this, "vocabulary", [&] { return at_least(1, "the number of tokens", do_vocabulary()); });
}
bool Tokenizer::bytes_are_ids() const {
  return call_component(*this, "bytes_are_ids", [&] { return do_bytes_are_ids(); });
}
std::string Tokenizer::fingerprint() const {
  return call_component(*this, "fingerprint", [&] { return do_fingerprint(); });
}
std::vector<i32> Tokenizer::encode(std::string_view text, SpecialTexts special) const {
  return call_component(*this, "encode", [&] {
    return special == SpecialTexts::parsed ? do_encode_parsed(text) : do_encode(text);
  });
}
std::unique_ptr<TextEncoder> Tokenizer::encoder(SpecialTexts special) const {
  return call_component(*this, "encoder", [&]() -> std::unique_ptr<TextEncoder> {
    std::unique_ptr<TextEncoder> own = do_encoder(special);
    return own != nullptr ? std::move(own) : std::make_unique<OneByOne>(*this, special);
  });
}
std::string Tokenizer::decode(const std::vector<i32>& ids) const {
  return call_component(*this, "decode", [&] { return do_decode(ids); });
}
bool Tokenizer::has_special_texts() const {
  return call_component(*this, "has_special_texts", [&] { return do_has_special_texts(); });
}
SpecialIds Tokenizer::special_ids() const {
  return call_component(*this, "special_ids", [&] {
    SpecialIds special = do_special_ids();
    const i64 tokens = do_vocabulary();
    const auto check = [&](std::string_view role, std::optional<i32> id) {
      if (!id) return;
      require(*id >= 0 && *id < tokens, "the {} token is {} of {} tokens", role, *id, tokens);
    };
    check("bos", special.bos);
    for (const i32 id : special.eos) check("eos", id);
    check("eod", special.eod);
    check("pad", special.pad);
    check("unk", special.unk);
    check("cls", special.cls);
    check("sep", special.sep);
    check("mask", special.mask);
    return special;
  });
}
bool Tokenizer::continues_word(i32 id) const {
  return call_component(*this, "continues_word", [&] {
    const i64 tokens = do_vocabulary();
    require(id >= 0 && id < tokens, "token {} of {} was asked for", id, tokens);
    return do_continues_word(id);
  });
}

EvaluationResults EvaluationTask::evaluate(TextScorer& scorer) const {
  return call_component(*this, "evaluate", [&] { return do_evaluate(scorer); });
}

EvaluationResults EvaluationTask::evaluate_samples(const SampleScores& scores) const {
  return call_component(*this, "evaluate_samples", [&] { return do_evaluate_samples(scores); });
}
std::shared_ptr<const Dataset> EvaluationTask::samples() const {
  return call_component(*this, "samples", [&] { return do_samples(); });
}
void EvaluationTask::to_average(SampleScores& scores) const {
  call_component(*this, "to_average", [&] { do_to_average(scores); });
}

std::vector<FieldInfo> Dataset::fields() const {
  return call_component(*this, "fields", [&] { return do_fields(); });
}
i64 Dataset::size(SampleSet set) const {
  return call_component(
      *this, "size", [&] { return at_least(0, "the number of samples", do_size(set)); });
}
void Dataset::read(SampleSet set, i64 ordinal, const SampleBuffers& out) const {
  call_component(*this, "read", [&] { do_read(set, ordinal, out); });
}
std::string Dataset::fingerprint() const {
  return call_component(*this, "fingerprint", [&] { return do_fingerprint(); });
}
std::string Dataset::origin(SampleSet set, i64 ordinal) const {
  return call_component(*this, "origin", [&] { return do_origin(set, ordinal); });
}
SetContent Dataset::content(SampleSet set) const {
  return call_component(*this, "content", [&] { return do_content(set); });
}
std::vector<const DataFile*> Dataset::files() const {
  return call_component(*this, "files", [&] { return do_files(); });
}

std::string_view Converter::model_type() const {
  return call_component(*this, "model_type", [&] { return do_model_type(); });
}
Settings Converter::to_ours(Claims& theirs) const {
  return call_component(*this, "to_ours", [&] { return do_to_ours(theirs); });
}
Settings Converter::to_theirs(const Settings& ours) const {
  return call_component(*this, "to_theirs", [&] { return do_to_theirs(ours); });
}
TokenizerFiles Converter::tokenizer_files() const {
  return call_component(*this, "tokenizer_files", [&] { return do_tokenizer_files(); });
}
Settings Converter::tokenizer(const std::string& folder,
                              const std::vector<std::string>& files,
                              const Settings& theirs) const {
  return call_component(*this, "tokenizer", [&] { return do_tokenizer(folder, files, theirs); });
}
TokenIds Converter::token_ids(const Tokenizer* tokenizer, const Settings& written) const {
  return call_component(*this, "token_ids", [&] { return do_token_ids(tokenizer, written); });
}
std::string Converter::tokenizer_config(const Tokenizer& tokenizer, const Settings& ours) const {
  return call_component(
      *this, "tokenizer_config", [&] { return do_tokenizer_config(tokenizer, ours); });
}
bool Converter::harmless_file(std::string_view name) const {
  return call_component(*this, "harmless_file", [&] { return do_harmless_file(name); });
}
std::vector<ConvertedTensor> Converter::tensors(const Settings& theirs) const {
  return call_component(*this, "tensors", [&] { return do_tensors(theirs); });
}
std::string_view Converter::optional_prefix() const {
  return call_component(*this, "optional_prefix", [&] { return do_optional_prefix(); });
}
std::vector<SharedTensor> Converter::shared(const Settings& theirs) const {
  return call_component(*this, "shared", [&] { return do_shared(theirs); });
}
bool Converter::redundant(std::string_view name, const Settings& theirs) const {
  return call_component(*this, "redundant", [&] { return do_redundant(name, theirs); });
}

StepRange Observer::recorded_steps() const {
  return call_component(*this, "recorded_steps", [&] { return do_recorded_steps(); });
}
void Observer::on(const RunStart& e) {
  call_component(*this, "RunStart", [&] { do_on(e); });
}
void Observer::on(const StepEnd& e) {
  call_component(*this, "StepEnd", [&] { do_on(e); });
}
void Observer::on(const MemoryUse& e) {
  call_component(*this, "MemoryUse", [&] { do_on(e); });
}
void Observer::on(const Validation& e) {
  call_component(*this, "Validation", [&] { do_on(e); });
}
void Observer::on(const SampleText& e) {
  call_component(*this, "SampleText", [&] { do_on(e); });
}
void Observer::on(const Saving& e) {
  call_component(*this, "Saving", [&] { do_on(e); });
}
void Observer::on(const Saved& e) {
  call_component(*this, "Saved", [&] { do_on(e); });
}
void Observer::on(const Recorded& e) {
  call_component(*this, "Recorded", [&] { do_on(e); });
}
void Observer::on(const Failure& e) {
  call_component(*this, "Failure", [&] { do_on(e); });
}
void Observer::on(const RunEnd& e) {
  call_component(*this, "RunEnd", [&] { do_on(e); });
}

}  // namespace tessera
