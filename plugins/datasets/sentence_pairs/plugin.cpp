#include "tessera/plugin.hpp"

#include "labelled_evaluation.hpp"
#include "labelled_texts.hpp"
#include "pair_datasets.hpp"
#include "pair_evaluations.hpp"
#include "race_dataset.hpp"
#include "race_evaluation.hpp"
#include "squad_dataset.hpp"
#include "squad_evaluation.hpp"

TESSERA_PLUGIN(pair_tasks, "0.1.0", "Tasks that BERT is fine-tuned for") {
  using namespace tessera;
  registrar.add<Dataset, MnliDataset>(
      "mnli", "Pairs of sentences of MNLI: contradiction, entailment, neutral.");
  registrar.add<Dataset, QqpDataset>("qqp", "Pairs of questions of QQP: different, duplicate.");
  registrar.add<Dataset, ClassesDataset>(
      "classes", "Texts of your own classes, or pairs of texts: JSONL with a text and a label.");
  registrar.add<Dataset, RaceDataset>(
      "race", "Questions of RACE about an article, with four choices, which share a sample.");
  registrar.add<Dataset, SquadDataset>(
      "squad",
      "Questions of SQuAD 1.1 or 2.0 whose answers are spans of a context, in windows of it.");
  registrar.add<EvaluationTask, MnliEvaluation>("mnli", "accuracy, of a mismatched file too");
  registrar.add<EvaluationTask, QqpEvaluation>("qqp", "accuracy, and F1 of duplicates");
  registrar.add<EvaluationTask, ClassesEvaluation>(
      "classes", "accuracy, and of each class which share of it is found");
  registrar.add<EvaluationTask, RaceEvaluation>("race", "accuracy of middle and high");
  registrar.add<EvaluationTask, SquadEvaluation>(
      "squad", "exact match and F1 of answers, as the official programs have them");
}
