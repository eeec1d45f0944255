"""The rivals' side of the radius and max-loss benchmarks: published attacks, run as published, checked strictly.

They live in a venv of their own, because their packages ask for another torch (in this order)::

    pip install torch
    pip install --no-deps numpy tqdm adv-lib==0.2.8 pyautoattack==0.2.0

and are started from the root of the repository::

    PYTHONPATH=benchmarks python -m rivals.radii --out results/radii
    PYTHONPATH=benchmarks python -m rivals.accuracies --out results/maxloss

Both skip what is there already, so they can be stopped and started again. Only the CSV files they leave are read
by the benchmarks themselves: nothing here is imported by ``pwcf``.
"""
