import { notFound } from 'next/navigation';

export default async function Item({ params, searchParams }) {
    const { id } = await params;
    if (id === 'none') {
        notFound();
    }
    return <p>{`item ${id} and ${JSON.stringify(await searchParams)}`}</p>;
}
