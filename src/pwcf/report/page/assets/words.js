// Words that not every reader knows. Each stands in a list beside where it is used, and all of them at the end.
const GLOSSARY = {
  radius: 'Distance from a sample to the nearest adversarial point that was found. The true distance may be smaller: it is an upper bound.',
  'robust accuracy': 'Share of all samples that are classified correctly and for which no attack found an adversarial point within eps; an upper bound, too.',
  eps: 'The largest distance that an adversarial point may have.',
  attacked: 'Classified correctly as it is, so that there was something to attack.',
  converged: 'Independent searches of the sample ended at the same radius: a much longer one is unlikely to lower it.',
  open: 'Counted as robust though the search did not converge, or, in max-loss, though nothing proves it: a longer search may break it.',
  gain: 'By what share of the radius a much longer search is likely to lower it at most.',
  'searches that ended here': 'How many independent searches of the sample found the same radius. The more agree, the less is left to gain.',
  stationarity: 'By what share the radius could still shrink nearby if the model were as linear as its gradients say: 0% is a local optimum, whatever lies farther away.',
  violation: 'By how much a point is outside the bounds of an input or beyond eps. Verified points have 0.',
  'soft sparsity': '‖d‖₁ / ‖d‖₂ of the perturbation d: 1 where a single entry changes, √entries where all change alike.',
  passes: 'Forward and backward passes of the model for a sample, checks included.',
};
