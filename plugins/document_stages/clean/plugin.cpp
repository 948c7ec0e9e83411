#include "tessera/plugin.hpp"
#include "clean_text.hpp"
#include "normal_form.hpp"
#include "tessera/document_stage.hpp"

namespace tessera {
namespace {

class Clean final : public DocumentStage {
 public:
  using Config = NoConfig;
  Clean(const Config&, DocumentStageArguments&) { require_normal_form(); }

 private:
  StageResult do_apply(const Document& document) const override {
    if (!may_be_unclean(document.text)) return {};
    std::string text = clean_text(document.text);
    if (text == document.text) return {};
    StageResult result;
    result.texts.push_back(std::move(text));
    return result;
  }
  bool do_mends_text() const override { return true; }
};

}  // namespace
}  // namespace tessera

TESSERA_PLUGIN(stage_clean, "0.1.0", "Characters of documents") {
  registrar.add<tessera::DocumentStage, tessera::Clean>(
      "clean",
      "Mends characters: bytes that are no UTF-8 become U+FFFD, control characters go, lines end "
      "with line feeds, all in Unicode's normal form C.");
}
