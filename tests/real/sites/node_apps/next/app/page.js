import { Suspense } from 'react';
import { headers } from 'next/headers';
import { Counter } from './counter';

async function Later() {
    await new Promise((resolve) => setTimeout(resolve, 50));
    return <p>later, by a stream</p>;
}

export default async function Page() {
    const asked = await headers();
    return (
        <main>
            <h1>Next.js is up, ümlaut</h1>
            <p>{`host ${asked.get('host')}`}</p>
            <Counter />
            <Suspense fallback={<p>not yet</p>}>
                <Later />
            </Suspense>
        </main>
    );
}
